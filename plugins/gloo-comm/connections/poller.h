// poll() shared by several components.
#pragma once

#include <poll.h>

#include <functional>
#include <vector>

#include "gloo-comm/connections/descriptor.h"

namespace tessera::gloo_comm {

/// One poll() over the sockets of several components.
class Poller {
 public:
  /// `action` is called on one of `events`, or when the connection has broken.
  void add(const Descriptor& socket, short events, std::function<void()> action) {
    polled_.push_back({socket.get(), events, 0});
    actions_.push_back(std::move(action));
  }

  /// Waits, then calls the actions in the order in which they were added. An action may throw, and may destroy sockets
  /// added before its own, but none added after it.
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
