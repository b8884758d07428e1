// The thread of a communicator that looks and ends.
#pragma once

#include <memory>
#include <thread>

#include "nccl-comm/session.h"

namespace tessera::nccl_comm {

/// The thread that minds one session and ends it. Each communicator has its own, so that those of a rank are aborted
/// beside one another: an abort may wait until the GPU has done what only another abort lets it do.
class Watchdog {
 public:
  explicit Watchdog(std::shared_ptr<Session> session);
  /// Ends the session. If NCCL takes too long for that, it is left to the thread, with the session. [control-thread]
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  static void run(const std::shared_ptr<Session>& session) noexcept;

  const std::shared_ptr<Session> session_;
  std::thread thread_;
};

}  // namespace tessera::nccl_comm
