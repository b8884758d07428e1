#include "comm.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "arithmetic.h"
#include "cuda_on_cpu.h"

using nccl_on_cpu::Clique;
using nccl_on_cpu::Kind;
using nccl_on_cpu::Task;

namespace {

// Added to the number of a collective that no other rank may join.
constexpr uint64_t kUnmatched = uint64_t{1} << 40;

std::mutex registry_mutex;
// Guarded by registry_mutex.
std::map<ncclComm_t, bool>& in_use() {
  static std::map<ncclComm_t, bool> comms;
  return comms;
}
char last_error[1024];

/// Ends the process when NCCL's kernel would touch memory that is not the GPU's, nor pinned.
void check_memory(const Task& task, int num_ranks) {
  const size_t one = task.num_elements * nccl_on_cpu::bytes_of(task.dtype), all = one * static_cast<size_t>(num_ranks);
  const size_t sent = task.kind == Kind::reduce_scatter ? all : one;
  const size_t received = task.kind == Kind::all_gather ? all : one;
  if ((!task.send || cuda_on_cpu::is_device_visible(task.send, sent)) &&
      (!task.recv || cuda_on_cpu::is_device_visible(task.recv, received)))
    return;
  std::fprintf(stderr, "nccl_on_cpu: a call was given memory that the GPU cannot touch\n");
  std::abort();
}

/// "rank@collective" in the environment.
long injected_failure(int rank) {
  const char* text = std::getenv("NCCL_ON_CPU_REMOTE_ERROR");
  int which = -1;
  long ticket = -1;
  if (!text || std::sscanf(text, "%d@%ld", &which, &ticket) != 2 || which != rank) return -1;
  return ticket;
}

}  // namespace

ncclComm::ncclComm(std::shared_ptr<Clique> its_clique, int its_rank, int its_num_ranks, int its_device)
    : clique(std::move(its_clique)),
      rank(its_rank),
      num_ranks(its_num_ranks),
      device(its_device),
      fails_at_(injected_failure(its_rank)) {}

ncclComm::~ncclComm() {
  quiesce();
}

ncclResult_t ncclComm::start(std::function<ncclResult_t()> job) {
  if (job_.joinable()) job_.join();
  state_ = ncclInProgress;
  job_ = std::thread([this, job = std::move(job)] {
    cudaSetDevice(device);
    state_ = job();
  });
  return ncclInProgress;
}

ncclResult_t ncclComm::launch(std::vector<Task> tasks, cudaStream_t stream) {
  if (tasks.empty()) return ncclSuccess;
  if (!clique->connect(rank, tasks, is_aborted_)) return ncclSystemError;
  for (const Task& task : tasks)
    check_memory(task, num_ranks);
  launches_.push_back(std::move(tasks));
  const cudaError_t error = cuda_on_cpu::enqueue(stream, [this, &launched = launches_.back()] { run(launched); });
  if (error == cudaSuccess) return ncclSuccess;
  nccl_on_cpu::say(std::string("Cuda failure '") + cudaGetErrorString(error) + "'");
  return ncclUnhandledCudaError;
}

void ncclComm::run(const std::vector<Task>& tasks) {
  ++num_running_;
  const auto is_collective = [](const Task& task) { return !task.is_message(); };
  uint64_t ticket = ticket_.fetch_add(static_cast<uint64_t>(std::count_if(tasks.begin(), tasks.end(), is_collective)));
  if (fails_at_ >= 0 && ticket_ > static_cast<uint64_t>(fails_at_)) {
    nccl_on_cpu::say("NET/Socket : socket closed by remote peer");
    fault_ = ncclRemoteError;
    ticket += kUnmatched;  // it hangs, as the kernel would
  }
  clique->run(rank, tasks, ticket, is_aborted_);
  --num_running_;
}

void ncclComm::abort() {
  clique->raise(is_aborted_);
}

void ncclComm::quiesce() {
  if (job_.joinable()) job_.join();
  while (num_running_ > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

namespace nccl_on_cpu {

void say(const std::string& text) {
  const std::lock_guard lock(registry_mutex);
  std::snprintf(last_error, sizeof last_error, "%s\n", text.c_str());
}

Use::Use(ncclComm_t comm, const char* function) : comm_(comm) {
  const std::lock_guard lock(registry_mutex);
  const auto found = in_use().find(comm);
  const char* breach = found == in_use().end() ? "which has ended"
                       : found->second         ? "which another thread uses"
                                               : nullptr;
  if (breach) {
    std::fprintf(stderr, "nccl_on_cpu: %s was called with a communicator %s\n", function, breach);
    std::abort();
  }
  found->second = true;
}

Use::~Use() {
  const std::lock_guard lock(registry_mutex);
  if (const auto found = in_use().find(comm_); found != in_use().end()) found->second = false;
}

void note_made(ncclComm_t comm) {
  const std::lock_guard lock(registry_mutex);
  in_use()[comm] = false;
}

void note_ended(ncclComm_t comm) {
  const std::lock_guard lock(registry_mutex);
  in_use().erase(comm);
}

void note_aborted(ncclComm_t comm) {
  static auto& kept = *new std::vector<ncclComm_t>;
  const std::lock_guard lock(registry_mutex);
  in_use().erase(comm);
  kept.push_back(comm);
}

}  // namespace nccl_on_cpu

extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(ncclComm_t) {
  return last_error;
}
