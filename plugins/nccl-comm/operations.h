// The collectives on the stream, for the watchdog: NCCL has no time-outs, so each one is placed between two events.
//
//     stream:  ... | before | NCCL's kernel | after | ...
//     not started: before is pending.  running: before is done, after is not; its time counts from when that was first
//     seen.  done: after is done.
//
// So a collective that is queued after a long backward pass is not late: its time starts when the GPU reaches it.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>

#include "nccl-comm/gpu.h"
#include "tessera/collective.hpp"

namespace tessera::nccl_comm {

/// When a wait started, and when the other members were last queried.
struct WaitTimer {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  Clock::time_point last_query = start;  // when the other members were last queried
};

/// A collective on a stream, between two events.
struct Operation {
  Collective collective;
  Event before, after;
  std::optional<WaitTimer> running;  // set when it was first seen to run; used by the watchdog only
};

/// The operations of a communicator on its streams, the oldest first. NCCL runs those of one communicator one after
/// another, so the oldest is the one that runs.
class Operations {
 public:
  /// Returns one that is not on a stream yet, for that collective; to be pushed or given back. [issue-thread]
  Operation& take(const Collective& collective) {
    Operation& operation = take_idle();
    operation.collective = collective;  // its capacity is used again
    operation.running.reset();
    return operation;
  }
  void push(Operation& operation) {
    const std::lock_guard lock(mutex_);
    on_stream_.push_back(&operation);
  }
  void give_back(Operation& operation) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(&operation);
  }

  /// NULL if there is none. It stays the oldest until pop(). [the watchdog's thread]
  Operation* oldest() {
    const std::lock_guard lock(mutex_);
    return on_stream_.empty() ? nullptr : on_stream_.front();
  }
  void pop() {
    const std::lock_guard lock(mutex_);
    idle_.push_back(on_stream_.front());
    on_stream_.pop_front();
  }
  /// Sets the collective that is being passed to NCCL, which outlives the call; NULL afterwards. [issue-thread]
  void issue(const Collective* collective) {
    const std::lock_guard lock(mutex_);
    issued_ = collective;
  }
  /// Collective::text() of the oldest that has not ended, or "". [any-thread]
  std::string oldest_text() {
    const std::lock_guard lock(mutex_);
    if (!on_stream_.empty()) return on_stream_.front()->collective.text();
    return issued_ ? issued_->text() : "";
  }

 private:
  Operation& take_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(all_.size() + 1);  // so that giving back never allocates
      return all_.emplace_back();
    }
    Operation& operation = *idle_.back();
    idle_.pop_back();
    return operation;
  }

  std::mutex mutex_;
  std::deque<Operation> all_;           // guarded by mutex_; addresses are stable
  std::vector<Operation*> idle_;        // guarded by mutex_
  std::deque<Operation*> on_stream_;    // guarded by mutex_
  const Collective* issued_ = nullptr;  // guarded by mutex_
};

}  // namespace tessera::nccl_comm
