// poll() for code that is made of parts.
#pragma once

#include <poll.h>

#include <functional>
#include <vector>

#include "gloo-comm/descriptor.h"

namespace tessera::gloo_comm {

/// One poll() over several parts of a program.
class Poller {
 public:
  /// `action` is called when one of `events` has come, or the connection has broken.
  void add(const Descriptor& socket, short events, std::function<void()> action) {
    polled_.push_back({socket.get(), events, 0});
    actions_.push_back(std::move(action));
  }

  /// Waits, then calls the actions in the order in which they were added. An action may throw, and may end what was
  /// added before it, but nothing that was added after it.
  void wait(int64_t timeout_ms) {
    if (::poll(polled_.data(), polled_.size(), static_cast<int>(timeout_ms)) <= 0) return;
    for (size_t i = 0; i < polled_.size(); ++i)
      if (polled_[i].revents != 0) actions_[i]();
  }

 private:
  std::vector<pollfd> polled_;
  std::vector<std::function<void()>> actions_;
};

}  // namespace tessera::gloo_comm
