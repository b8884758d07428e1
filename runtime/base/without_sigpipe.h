// Writes to a pipe whose reader may be gone.
#pragma once

#include <csignal>
#include <ctime>

namespace tessera::host {

/// A closed reader makes this thread's write fail with EPIPE, instead of killing the process silently with SIGPIPE.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    constexpr timespec kNow = {0, 0};
    // Consumes the pending signal, unless the caller had blocked it and may be waiting for it.
    if (!sigismember(&before_, SIGPIPE)) ::sigtimedwait(&pipe_, nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace tessera::host
