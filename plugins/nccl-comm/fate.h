// The end of a communicator, shared by the thread that issues, the watchdog, and the thread that aborts. One direction
// only: runs -> shall end (wishes_end_, perhaps with an error) -> has ended. The first error is kept, since the later
// ones are its consequences.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "tessera/error.hpp"

namespace tessera::nccl_comm {

/// What becomes of a communicator: its first error, whether it is to end, and whether it has. [any-thread]
class Fate {
 public:
  /// Records the error if it is the first, requests the end, and returns the first error.
  Error fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    wishes_end_ = true;
    changed_.notify_all();
    return *error_;
  }
  std::optional<Error> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void wish_end() {
    const std::lock_guard lock(mutex_);
    wishes_end_ = true;
    changed_.notify_all();
  }
  /// Waits for `period`; true when the end is requested.
  bool wait_for_wish(std::chrono::milliseconds period) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, period, [this] { return wishes_end_; });
  }
  void note_end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  /// Waits for note_end(); false when it did not come within `limit`.
  bool wait_for_end(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return has_ended_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> error_;  // guarded by mutex_, as what follows
  bool wishes_end_ = false;
  bool has_ended_ = false;
};

}  // namespace tessera::nccl_comm
