// cudaLaunchHostFunc takes a pointer and says nothing when the function has run, so each call lives in a list of its
// stream's until then and is used again: a step allocates none after the first. A function runs on a thread of CUDA's
// that serves all streams, so it must neither wait nor call CUDA.
#include "cuda-device/host_callbacks.h"

#include <thread>

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {

// On a failed device a stream counts as done while its last function may still be running.
HostCalls::~HostCalls() {
  while (num_running_.load(std::memory_order_acquire) > 0)
    std::this_thread::yield();
}

void HostCalls::enqueue(cudaStream_t stream, tsr_host_function function, void* user, const Work& work) {
  Call* call = take();
  call->function = function;
  call->user = user;
  call->work = work;
  const cudaError_t error = cudaLaunchHostFunc(stream, &HostCalls::run, call);
  if (error != cudaSuccess) give_back(call);
  check(error, "cudaLaunchHostFunc");
}

HostCalls::Call* HostCalls::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    calls_.emplace_back().owner = this;
    free_.reserve(calls_.size());  // so that giving back never allocates
    return &calls_.back();
  }
  Call* call = free_.back();
  free_.pop_back();
  return call;
}

void HostCalls::give_back(Call* call) {
  const std::lock_guard lock(mutex_);
  free_.push_back(call);
}

void CUDART_CB HostCalls::run(void* argument) noexcept {
  auto* call = static_cast<Call*>(argument);
  HostCalls& owner = *call->owner;
  owner.num_running_.fetch_add(1, std::memory_order_relaxed);
  owner.failures_.run(call->work, call->function, call->user);
  owner.give_back(call);
  owner.num_running_.fetch_sub(1, std::memory_order_release);
}

}  // namespace tessera::cuda
