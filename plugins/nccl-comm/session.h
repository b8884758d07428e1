// The life of one NCCL communicator.
//
//     thread            calls
//     control           the constructor, join
//     issue             run: enqueue, then wait until NCCL's own thread has the kernel on the stream (some 30 us)
//     watchdog          poll, every 20 ms: late operations, NCCL's asynchronous errors; end
//     any               check, abort: these only read or set flags for the others
//
// No call blocks in NCCL without a deadline: communicators are made with blocking = 0, so every call returns at once,
// and the wait is a loop here. docs/decisions/0019 has the details of NCCL that this relies on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "nccl-comm/handle.h"
#include "nccl-comm/operations.h"
#include "nccl-comm/shutdown_state.h"
#include "nccl-comm/status_board.h"
#include "tessera/rendezvous.hpp"

namespace tessera::nccl_comm {

/// What a user may ask of NCCL; empty or 0 leaves it to NCCL.
struct Settings {
  bool keeps_order = false;  ///< the GPU starts collectives of all communicators in the order in which they came
  int max_channels = 0;      ///< of a collective: so many of the GPU's multiprocessors it takes at most
};

/// One NCCL communicator from joining to its end. Its Watchdog polls what is on the stream and ends it.
class Session {
 public:
  /// `prefix`: of its keys in the key-value store. Borrows the host.
  Session(std::shared_ptr<const Library> nccl, Member member, const Settings& settings, int gpu, const tsr_host* host,
          const std::string& prefix);

  const Library& nccl() const { return *nccl_; }
  int gpu() const { return gpu_; }

  /// Joins the other members. DEADLINE when NCCL has not done so by then, ABORTED soon after `cancel` is set.
  /// [control-thread]
  void join(ncclUniqueId id, const Deadline& deadline, const CancelFlag& cancel);
  /// Lets `enqueue` pass a collective to NCCL and returns when it is on the stream. NCCL makes connections at their
  /// first use, so the first call waits for the other ranks. Throws the session's first error. [issue-thread]
  void run(const Collective& collective, cudaStream_t stream, const std::function<ncclResult_t(ncclComm_t)>& enqueue);

  /// Throws the first error. [any-thread]
  void check() const;
  /// All later calls fail with ABORTED. [any-thread]
  void abort() noexcept;
  /// The same; what is on the GPU is cut after that of `first`, or a second later. [any-thread]
  void abort_after(std::shared_ptr<Session> first) noexcept;
  ShutdownState& shutdown() { return shutdown_; }

  /// Checks the oldest operation on the stream, and NCCL. An error requests the shutdown. [the watchdog's thread]
  void poll() noexcept;
  /// Ends the communicator: finalizes it or, after an error, aborts what is on the GPU. Takes as long as NCCL takes.
  /// [the watchdog's thread]
  void end() noexcept;

 private:
  ncclConfig_t config() const;
  void issue(const Collective& collective, const std::function<ncclResult_t(ncclComm_t)>& enqueue);
  /// Waits until NCCL is no longer in progress. `check_wait` is called in each round, and throws when that takes too
  /// long.
  void wait_until_ready(const std::function<std::string()>& what, const std::function<void()>& check_wait);
  void poll_operations();
  void poll_nccl();
  void check_progress(const Collective& collective, WaitTimer& timer);
  Error timed_out_error(const Collective& collective);
  /// The error of a call after the communicator has ended.
  Error ended_error() const;
  void wait_for_first() noexcept;
  bool finalize(ncclComm_t comm);

  const std::shared_ptr<const Library> nccl_;
  const Member member_;
  const Settings settings_;
  const int gpu_;
  StatusBoard status_board_;
  Handle handle_;
  Operations operations_;
  ShutdownState shutdown_;
  std::atomic<bool> is_aborted_{false};
  std::mutex first_mutex_;
  std::shared_ptr<Session> first_;  // guarded by first_mutex_: the one that is cut before this one
};

}  // namespace tessera::nccl_comm
