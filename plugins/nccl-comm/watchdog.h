// The thread that polls a communicator for errors and ends it.
#pragma once

#include <memory>
#include <thread>

#include "nccl-comm/session.h"

namespace tessera::nccl_comm {

/// The thread that polls one session and ends it. Each communicator has its own, so that those of a rank are aborted in
/// parallel: an abort may wait for work on the GPU that only another abort releases.
class Watchdog {
 public:
  explicit Watchdog(std::shared_ptr<Session> session);
  /// Ends the session. If NCCL takes too long, the thread and the session are detached. [control-thread]
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  static void run(const std::shared_ptr<Session>& session) noexcept;

  const std::shared_ptr<Session> session_;
  std::thread thread_;
};

}  // namespace tessera::nccl_comm
