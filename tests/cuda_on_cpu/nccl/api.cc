// The functions of nccl.h that nccl-comm uses, over threads of one process.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "comm.h"

#define NCCL_ON_CPU_API extern "C" __attribute__((visibility("default")))

using nccl_on_cpu::Clique;
using nccl_on_cpu::Kind;
using nccl_on_cpu::Task;
using nccl_on_cpu::Use;

namespace {

// NCCL takes longer; this is long enough to fail a caller that does not wait.
constexpr std::chrono::milliseconds kInitTime(5), kFinalizeTime(2), kSlowAbortTime(300);
constexpr std::chrono::microseconds kLaunchTime(50);

std::atomic<uint64_t> next_id{1};

std::shared_ptr<Clique> clique_of(const ncclUniqueId& id, int num_ranks) {
  uint64_t key = 0;
  std::memcpy(&key, id.internal, sizeof key);
  static std::mutex mutex;
  static std::map<uint64_t, std::weak_ptr<Clique>> cliques;  // by unique id; guarded by mutex
  const std::lock_guard lock(mutex);
  auto clique = cliques[key].lock();
  if (!clique) cliques[key] = clique = std::make_shared<Clique>(num_ranks);
  return clique;
}

/// What the calling thread gathers between ncclGroupStart and ncclGroupEnd.
struct Group {
  struct Call {
    ncclComm_t comm;
    Task task;
    cudaStream_t stream;
  };
  int depth = 0;
  std::vector<Call> calls;
};
thread_local Group group;

ncclResult_t join(ncclComm& comm) {
  std::this_thread::sleep_for(kInitTime);
  int duplicate = -1;
  const ncclResult_t result = comm.clique->join(comm.rank, comm.device, comm.is_aborted(), duplicate);
  if (result == ncclInvalidUsage)
    nccl_on_cpu::say("Duplicate GPU detected : rank " + std::to_string(comm.rank) + " and rank " +
                     std::to_string(duplicate) + " both on CUDA device " + std::to_string(comm.device));
  return result;
}

ncclResult_t launch_all(const std::vector<Group::Call>& calls) {
  ncclResult_t result = ncclSuccess;
  std::map<std::pair<ncclComm_t, cudaStream_t>, std::vector<Task>> by_place;
  for (const auto& call : calls)
    by_place[{call.comm, call.stream}].push_back(call.task);
  for (auto& [place, tasks] : by_place) {
    const auto [comm, stream] = place;
    const ncclResult_t started = comm->start([comm = comm, stream = stream, tasks = std::move(tasks)] {
      std::this_thread::sleep_for(kLaunchTime);
      return comm->launch(tasks, stream);
    });
    if (started != ncclSuccess) result = started;
  }
  return result;
}

ncclResult_t enqueue(ncclComm_t comm, const char* function, const Task& task, cudaStream_t stream) {
  const Use use(comm, function);
  if (comm->state() == ncclInProgress) {
    nccl_on_cpu::say("Attempt to use communicator before the previous operation returned ncclSuccess");
    return ncclInvalidArgument;
  }
  if (comm->state() != ncclSuccess) return comm->state();
  if (task.peer < 0 || task.peer >= comm->num_ranks) return ncclInvalidArgument;
  if (!task.is_message() && task.num_elements == 0) return ncclSuccess;
  ncclGroupStart();
  group.calls.push_back({comm, task, stream});
  return ncclGroupEnd();
}

}  // namespace

NCCL_ON_CPU_API ncclResult_t ncclGetVersion(int* version) {
  const char* wanted = std::getenv("NCCL_ON_CPU_VERSION");
  *version = wanted ? std::atoi(wanted) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

NCCL_ON_CPU_API const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}

NCCL_ON_CPU_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const uint64_t key = next_id++;
  *id = {};
  std::memcpy(id->internal, &key, sizeof key);
  return ncclSuccess;
}

NCCL_ON_CPU_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                                    ncclConfig_t* config) {
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
  if (rank < 0 || rank >= num_ranks) return ncclInvalidArgument;
  if (config->blocking != 0) return ncclInvalidArgument;          // not emulated
  const char* const asked = std::getenv("NCCL_ON_CPU_MAX_CTAS");  // what a test expects to be asked for
  if (asked && config->maxCTAs != std::atoi(asked)) return ncclInvalidArgument;
  *comm = new ncclComm(clique_of(id, num_ranks), rank, num_ranks, device);
  if (config->commName) (*comm)->name = config->commName;
  nccl_on_cpu::note_made(*comm);
  return (*comm)->start([comm = *comm] { return join(*comm); });
}

NCCL_ON_CPU_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const Use use(comm, "ncclCommGetAsyncError");
  *state = comm->state();
  return ncclSuccess;
}

NCCL_ON_CPU_API ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const Use use(comm, "ncclCommFinalize");
  if (comm->is_finalized || comm->state() != ncclSuccess) return ncclInvalidArgument;
  comm->is_finalized = true;
  return comm->start([] {
    std::this_thread::sleep_for(kFinalizeTime);
    return ncclSuccess;
  });
}

NCCL_ON_CPU_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  { const Use use(comm, "ncclCommDestroy"); }
  nccl_on_cpu::note_ended(comm);
  delete comm;
  return ncclSuccess;
}

NCCL_ON_CPU_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
  { const Use use(comm, "ncclCommAbort"); }
  const char* const slow = std::getenv("NCCL_ON_CPU_SLOW_ABORT");  // the name of a communicator
  if (slow && comm->name == slow) std::this_thread::sleep_for(kSlowAbortTime);
  nccl_on_cpu::note_aborted(comm);  // it stays: what is still queued on streams will see that
  comm->abort();
  comm->quiesce();
  return ncclSuccess;
}

NCCL_ON_CPU_API ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

NCCL_ON_CPU_API ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  const auto calls = std::exchange(group.calls, {});
  return launch_all(calls);
}

NCCL_ON_CPU_API ncclResult_t ncclAllReduce(const void* send, void* recv, size_t n, ncclDataType_t dtype, ncclRedOp_t op,
                                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, __func__, {Kind::all_reduce, send, recv, n, dtype, op, 0}, stream);
}

NCCL_ON_CPU_API ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t n, ncclDataType_t dtype,
                                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, __func__, {Kind::reduce_scatter, send, recv, n, dtype, op, 0}, stream);
}

NCCL_ON_CPU_API ncclResult_t ncclAllGather(const void* send, void* recv, size_t n, ncclDataType_t dtype,
                                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, __func__, {Kind::all_gather, send, recv, n, dtype, ncclSum, 0}, stream);
}

NCCL_ON_CPU_API ncclResult_t ncclBroadcast(const void* send, void* recv, size_t n, ncclDataType_t dtype, int root,
                                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, __func__, {Kind::broadcast, send, recv, n, dtype, ncclSum, root}, stream);
}

NCCL_ON_CPU_API ncclResult_t ncclReduce(const void* send, void* recv, size_t n, ncclDataType_t dtype, ncclRedOp_t op,
                                        int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, __func__, {Kind::reduce, send, recv, n, dtype, op, root}, stream);
}

NCCL_ON_CPU_API ncclResult_t ncclSend(const void* send, size_t n, ncclDataType_t dtype, int peer, ncclComm_t comm,
                                      cudaStream_t stream) {
  return enqueue(comm, __func__, {Kind::send, send, nullptr, n, dtype, ncclSum, peer}, stream);
}

NCCL_ON_CPU_API ncclResult_t ncclRecv(void* recv, size_t n, ncclDataType_t dtype, int peer, ncclComm_t comm,
                                      cudaStream_t stream) {
  return enqueue(comm, __func__, {Kind::recv, nullptr, recv, n, dtype, ncclSum, peer}, stream);
}
