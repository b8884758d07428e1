#include "cuda-device/event.h"

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {

Event::Event(const Context& context) : context_(context) {
  context_.make_current();
  check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

// The event may still be on its way through a stream: CUDA frees it after that.
Event::~Event() {
  context_.try_make_current();
  cudaEventDestroy(handle_);
}

}  // namespace tessera::cuda
