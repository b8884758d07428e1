// An emulated communicator: what ncclComm_t points to.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "clique.h"

/// NCCL allows one thread at a time per communicator and none after its end: a test that breaks this ends here.
struct ncclComm {
 public:
  ncclComm(std::shared_ptr<nccl_on_cpu::Clique> clique, int rank, int num_ranks, int device);
  ~ncclComm();

  /// Does `job` on a thread; the state is "in progress" until the job has returned the next one.
  ncclResult_t start(std::function<ncclResult_t()> job);
  ncclResult_t state() const { return state_ == ncclSuccess ? fault_ : state_; }
  /// Puts tasks on the stream; in start().
  ncclResult_t launch(std::vector<nccl_on_cpu::Task> tasks, cudaStream_t stream);
  /// Makes everything that waits give up.
  void abort();
  /// Waits for the thread of start(), and for what is on streams and being done.
  void quiesce();

  std::shared_ptr<nccl_on_cpu::Clique> clique;
  const int rank, num_ranks, device;
  std::string name;  // as its owner calls it
  bool is_finalized = false;
  const bool& is_aborted() const { return is_aborted_; }

 private:
  void run(const std::vector<nccl_on_cpu::Task>& tasks);

  std::thread job_;
  std::atomic<ncclResult_t> state_{ncclSuccess};
  std::atomic<ncclResult_t> fault_{ncclSuccess};  // of what is on a stream
  bool is_aborted_ = false;                       // guarded by the clique's mutex
  std::atomic<uint64_t> ticket_{0};               // of the next collective, as they are done
  std::atomic<int> num_running_{0};
  std::deque<std::vector<nccl_on_cpu::Task>> launches_;  // kept: a graph runs them again
  const long fails_at_;  // NCCL_ON_CPU_REMOTE_ERROR: the collective that hangs, with ncclRemoteError; or -1
};

namespace nccl_on_cpu {

/// What ncclGetLastError says.
void say(const std::string& text);

/// The calling thread uses `comm`; ends the process when another does, or when the communicator was destroyed.
class Use {
 public:
  Use(ncclComm_t comm, const char* function);
  ~Use();

 private:
  ncclComm_t comm_;
};
void note_made(ncclComm_t comm);
/// From now on no call may use it; what `Use` guards has to have ended.
void note_ended(ncclComm_t comm);
/// The same; it is kept for the life of the process.
void note_aborted(ncclComm_t comm);

}  // namespace nccl_on_cpu
