// How a wait inside gloo ends when it should not go on.
#pragma once

#include <mutex>
#include <optional>

#include "gloo-comm/wire.h"
#include "tessera/key_value.hpp"

namespace tessera::gloo_comm {

/// How a wait ended.
enum class Outcome {
  kDone,
  kTimedOut,  // the deadline of the operation passed
  kAborted,
  kBroken,  // a connection was lost
};

/// The waits of one operation at a time, which another thread can end. gloo's own time-outs are not used: they drop all
/// connections before the peers could be told why.
class Waiter {
 public:
  /// An operation begins, and ends. [the operation's thread]
  void begin(const Deadline& deadline);
  void end();

  /// Waits for one completion. [the operation's thread]
  Outcome wait_received(Buffer& buffer) { return wait(buffer, true); }
  Outcome wait_sent(Buffer& buffer) { return wait(buffer, false); }

  /// Ends the wait in progress and all later ones with `reason`; the first reason counts. [any-thread]
  void wake(Outcome reason) noexcept;
  /// wake(kTimedOut) if the operation's deadline has passed. [any-thread]
  void wake_if_late() noexcept;
  bool is_aborted() const noexcept;

 private:
  Outcome wait(Buffer& buffer, bool receives);
  Outcome enter(Buffer& buffer, bool receives);
  Outcome leave();
  void wake_locked(Outcome reason) noexcept;

  mutable std::mutex mutex_;
  std::optional<Deadline> deadline_;
  Outcome reason_ = Outcome::kDone;
  Buffer* current_ = nullptr;
  bool receives_ = false;
};

}  // namespace tessera::gloo_comm
