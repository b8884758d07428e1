// The handle that all threads of a communicator share. It enforces NCCL's rule: one thread at a time may use a
// communicator, and none once it is being destroyed.
#pragma once

#include <mutex>
#include <optional>

#include "nccl-comm/library.h"

namespace tessera::nccl_comm {

/// The handle of one non-blocking NCCL communicator (blocking = 0). Only one thread at a time may call NCCL with it,
/// and none once its end has begun, when NCCL frees it. [any-thread]
class Handle {
 public:
  explicit Handle(const Library& nccl) : nccl_(nccl) {}

  /// Runs use(ncclComm_t&) exclusively; a NULL handle is to be set by it. Returns false, without running it, once the
  /// end has begun.
  template <class F>
  bool use(F&& use) {
    const std::lock_guard lock(mutex_);
    if (is_released_) return false;
    use(comm_);
    return true;
  }

  /// NCCL's state: ncclSuccess, ncclInProgress, or an error. Nothing once the end has begun; ncclSuccess before there
  /// is a communicator.
  std::optional<ncclResult_t> state() {
    ncclResult_t state = ncclSuccess;
    const bool is_there = use([&](ncclComm_t comm) {
      if (!comm) return;
      const ncclResult_t result = nccl_.comm_get_async_error(comm, &state);
      if (result != ncclSuccess) state = result;
    });
    return is_there ? std::optional(state) : std::nullopt;
  }

  /// The end begins: the communicator, NULL if there is none, is the caller's alone.
  ncclComm_t release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    return std::exchange(comm_, nullptr);
  }

 private:
  const Library& nccl_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // guarded by mutex_
  bool is_released_ = false;   // guarded by mutex_
};

}  // namespace tessera::nccl_comm
