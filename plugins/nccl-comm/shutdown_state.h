// The shutdown of a communicator, shared by the issuing thread, the watchdog, and the thread that aborts. One direction
// only: running -> shutdown requested (perhaps with an error) -> done. The first error is kept, since later ones are
// its consequences.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "tessera/error.hpp"

namespace tessera::nccl_comm {

/// The first error of a communicator, whether its shutdown is requested, and whether it is done. [any-thread]
class ShutdownState {
 public:
  /// Records the error if it is the first, requests the shutdown, and returns the first error.
  Error fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    is_requested_ = true;
    changed_.notify_all();
    return *error_;
  }
  std::optional<Error> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void request() {
    const std::lock_guard lock(mutex_);
    is_requested_ = true;
    changed_.notify_all();
  }
  /// Waits for `period`; true when the shutdown is requested.
  bool wait_for_request(std::chrono::milliseconds period) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, period, [this] { return is_requested_; });
  }
  void mark_done() {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
  }
  /// Waits for mark_done(); false if it is not called within `limit`.
  bool wait_until_done(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return is_done_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> error_;  // guarded by mutex_, as are the next two
  bool is_requested_ = false;
  bool is_done_ = false;
};

}  // namespace tessera::nccl_comm
