// gloo's pair opens a port and accepts the first connection as its peer's. So our pair closes that port in its
// constructor and continues with a socket that Bootstrap has authenticated. Between the base class's constructor and
// ours the port is open, on loopback, for microseconds; gloo's thread, the only one that accepts from it, is the thread
// that runs the constructor (Task), so no stranger can get in. This relies on gloo's members m_, fd_, state_ and
// handleConnected(), which are protected so that its TLS pair can do the same.
#include "gloo-comm/connections/pairs.h"

#include <gloo/transport/tcp/pair.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cstring>
#include <functional>
#include <future>

namespace tessera::gloo_comm {
namespace {

namespace tcp = ::gloo::transport::tcp;

/// The address of the ports that gloo's pairs open and that are closed before they accept anything.
tcp::attr loopback_attr() {
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  tcp::attr attr;
  attr.ai_family = AF_INET;
  attr.ai_socktype = SOCK_STREAM;
  attr.ai_protocol = 0;
  attr.ai_addrlen = sizeof loopback;
  attr.ai_addr = {};
  std::memcpy(&attr.ai_addr, &loopback, sizeof loopback);
  return attr;
}

/// A pair that starts with a connection instead of a port. Made in gloo's thread only, which then cannot accept a
/// stranger at the port before it is closed.
class Pair final : public tcp::Pair {
 public:
  Pair(tcp::Context* context, tcp::Device* device, int peer, std::chrono::milliseconds timeout, Descriptor& socket)
      : tcp::Pair(context, device, peer, timeout) {
    const std::lock_guard lock(m_);
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = socket.get();
    try {
      handleConnected();
    } catch (...) {
      fd_ = -1;  // still the handshake's; the base class has nothing to close
      throw;
    }
    socket.release();
  }

  /// An exception in gloo's own thread would end the process, so it ends the connection instead.
  void handleEvents(int events) override {
    try {
      tcp::Pair::handleEvents(events);
    } catch (const std::exception& error) {
      // The holder of the lock may be waiting for this thread; then the event comes again.
      const std::unique_lock lock(m_, std::try_to_lock);
      if (lock && state_ != CLOSED) signalException(error.what());
    }
  }
};

/// A function that gloo's thread calls once, while nothing else happens in that thread.
class Task final : public tcp::Handler {
 public:
  Task(tcp::Device& device, std::function<void()> work) : device_(device), work_(std::move(work)) {}

  /// Returns when the work is done; throws what it throws.
  static void run(tcp::Device& device, std::function<void()> work) {
    const auto task = std::make_shared<Task>(device, std::move(work));
    task->self_ = task;
    auto done = task->done_.get_future();
    device.registerDescriptor(task->ready_.get(), EPOLLIN, task.get());
    done.get();
  }

  void handleEvents(int) override {
    const std::shared_ptr<Task> keep =
        std::move(self_);  // run() may return, and release its pointer, before this function does
    device_.unregisterDescriptor(ready_.get(), this);
    try {
      work_();
      done_.set_value();
    } catch (...) {
      done_.set_exception(std::current_exception());
    }
  }

 private:
  tcp::Device& device_;
  const std::function<void()> work_;
  const Descriptor ready_{eventfd(1, EFD_CLOEXEC)};
  std::promise<void> done_;
  std::shared_ptr<Task> self_;
};

}  // namespace

Pairs::Pairs(int own_rank, int num_ranks)
    : tcp::Context(std::make_shared<tcp::Device>(loopback_attr()), own_rank, num_ranks) {
  setTimeout(std::chrono::hours(24));  // the waits have deadlines of their own
}

void Pairs::adopt(std::vector<Descriptor> sockets) {
  Task::run(*device_, [&] {
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank)
        pairs_[static_cast<size_t>(peer)] =
            std::make_unique<Pair>(this, device_.get(), peer, getTimeout(), sockets[static_cast<size_t>(peer)]);
  });
}

}  // namespace tessera::gloo_comm
