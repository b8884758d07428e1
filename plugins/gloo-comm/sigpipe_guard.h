// Writing to a socket whose peer is gone must be an error, not the end of the process.
#pragma once

#include <csignal>
#include <ctime>

namespace tessera::gloo_comm {

/// While it lives, SIGPIPE does not reach this thread, nor a thread started by it: gloo writes to sockets without
/// MSG_NOSIGNAL, and a write to a peer that died would end the process. A plugin may not change the signal's handler.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeGuard() {
    const timespec no_wait{};
    if (!was_pending_)
      while (sigtimedwait(&sigpipe_, nullptr, &no_wait) > 0) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace tessera::gloo_comm
