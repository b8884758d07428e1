// Waits inside gloo that another thread can cancel: at a deadline, on an abort, when a connection is lost.
#pragma once

#include <mutex>
#include <optional>

#include "gloo-comm/connections/wire.h"
#include "tessera/key_value.hpp"

namespace tessera::gloo_comm {

/// How a wait ended.
enum class Outcome {
  kDone,
  kTimedOut,  // the deadline of the operation passed
  kAborted,
  kBroken,  // a connection was lost
};

/// The waits of one operation at a time. gloo's own time-outs are not used: they drop all connections before the peers
/// could be notified of the reason.
class CancellableWait {
 public:
  /// Called when an operation begins and when it ends. [the operation's thread]
  void begin(const Deadline& deadline);
  void end();

  /// Waits for one completion. [the operation's thread]
  Outcome wait_received(Buffer& buffer) { return wait(buffer, true); }
  Outcome wait_sent(Buffer& buffer) { return wait(buffer, false); }

  /// Ends the wait in progress and all later ones with `reason`; the first reason counts. [any-thread]
  void cancel(Outcome reason) noexcept;
  /// cancel(kTimedOut) if the operation's deadline has passed. [any-thread]
  void cancel_if_late() noexcept;
  bool is_aborted() const noexcept;

 private:
  Outcome wait(Buffer& buffer, bool receives);
  Outcome enter(Buffer& buffer, bool receives);
  Outcome leave();
  void cancel_locked(Outcome reason) noexcept;

  mutable std::mutex mutex_;
  std::optional<Deadline> deadline_;
  Outcome reason_ = Outcome::kDone;
  Buffer* current_ = nullptr;
  bool receives_ = false;
};

}  // namespace tessera::gloo_comm
