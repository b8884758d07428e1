// The life of one NCCL communicator.
//
//     thread            calls
//     control           the constructor, join, split
//     issue             run: enqueue, then wait until NCCL's own thread has the kernel on the stream (some 30 us)
//     watchdog          look every 20 ms: late operations, NCCL's asynchronous errors; end
//     any               check, abort: these only set what the others look at
//
// Nothing blocks in NCCL without a way out: communicators are made with blocking = 0, so every call returns at once,
// and we wait in a loop that has a deadline. docs/decisions/0019 has what was read in NCCL and why.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "nccl-comm/bulletin.h"
#include "nccl-comm/fate.h"
#include "nccl-comm/handle.h"
#include "nccl-comm/operations.h"

namespace tessera::nccl_comm {

/// One NCCL communicator from joining to its end. The end, and looking at what is on the stream, are its watchdog's.
class Session {
 public:
  /// `prefix`: of its keys in the key-value store. Borrows the host.
  Session(std::shared_ptr<const Library> nccl, Member member, int gpu, const tsr_host* host, const std::string& prefix);

  const Library& nccl() const { return *nccl_; }
  const std::shared_ptr<const Library>& shared_nccl() const { return nccl_; }
  int gpu() const { return gpu_; }

  /// Joins the other members. DEADLINE when NCCL has not done so by then. [control-thread]
  void join(ncclUniqueId id, const Deadline& deadline);
  /// Takes part in a split, by which `child` (NULL: this rank is in no new group) gets its communicator.
  /// [control-thread]
  void split(int color, int key, const std::shared_ptr<Session>& child, const Deadline& deadline);
  /// Lets `enqueue` give a collective to NCCL and returns when it is on the stream. The first two ranks that need a
  /// connection of NCCL's make it here, so the first time this waits for the others. Throws the first error there was.
  /// [issue-thread]
  void run(const Collective& collective, cudaStream_t stream, const std::function<ncclResult_t(ncclComm_t)>& enqueue);

  /// Throws the first error. [any-thread]
  void check() const;
  /// From now on everything fails with ABORTED. [any-thread]
  void abort() noexcept;
  const std::atomic<bool>& aborted() const { return is_aborted_; }
  Fate& fate() { return fate_; }

  /// Looks at the oldest operation on the stream, and at NCCL. An error is the end. [the watchdog's thread]
  void look() noexcept;
  /// Ends the communicator: in good order, or, after an error, by aborting what is on the GPU. Takes as long as NCCL
  /// takes. [the watchdog's thread]
  void end() noexcept;

 private:
  ncclConfig_t config() const;
  void issue(const Collective& collective, const std::function<ncclResult_t(ncclComm_t)>& enqueue);
  /// Waits until NCCL is no longer in progress. `bear` is called in each round, and throws when that takes too long.
  void wait_until_ready(const std::function<std::string()>& what, const std::function<void()>& bear);
  void wait_until_ready(const char* what, const Deadline& deadline);
  void look_at_operations();
  void look_at_nccl();
  void bear_with(const Collective& collective, Patience& patience);
  Error late_error(const Collective& collective);
  /// Why the communicator is gone.
  Error ended_error() const;
  bool finalize(ncclComm_t comm);

  const std::shared_ptr<const Library> nccl_;
  const Member member_;
  const int gpu_;
  Bulletin bulletin_;
  Handle handle_;
  Operations operations_;
  Fate fate_;
  std::atomic<bool> is_aborted_{false};
  // During a split: where NCCL puts the new communicator, and whose it will be. A split that failed leaves them. Read
  // and written in handle_.use(), and by end() after handle_.release().
  ncclComm_t split_off_ = nullptr;
  std::shared_ptr<Session> child_;
};

}  // namespace tessera::nccl_comm
