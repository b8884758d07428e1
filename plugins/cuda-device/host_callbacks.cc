// cudaLaunchHostFunc takes a pointer and does not report when the function has run, so each call is kept in a list of
// its stream until then and is used again: a step allocates none after the first. A function runs on a thread of CUDA's
// that serves all streams, so it must neither wait nor call CUDA.
#include "cuda-device/host_callbacks.h"

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {

void HostCallbacks::enqueue(cudaStream_t stream, tsr_host_function function, void* user, const Work& work) {
  Call* call = take();
  call->function = function;
  call->user = user;
  call->work = work;
  in_flight_.submit(1);
  const cudaError_t error = cudaLaunchHostFunc(stream, &HostCallbacks::run, call);
  if (error != cudaSuccess) {
    in_flight_.cancel(1);
    give_back(call);
  }
  check(error, "cudaLaunchHostFunc");
}

HostCallbacks::Call* HostCallbacks::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    callbacks_.emplace_back().owner = this;
    free_.reserve(callbacks_.size());  // so that giving back never allocates
    return &callbacks_.back();
  }
  Call* call = free_.back();
  free_.pop_back();
  return call;
}

void HostCallbacks::give_back(Call* call) {
  const std::lock_guard lock(mutex_);
  free_.push_back(call);
}

void CUDART_CB HostCallbacks::run(void* argument) noexcept {
  auto* call = static_cast<Call*>(argument);
  HostCallbacks& owner = *call->owner;
  owner.in_flight_.begin();
  owner.errors_.run(call->work, call->function, call->user);
  owner.give_back(call);
  owner.in_flight_.end();
}

}  // namespace tessera::cuda
