// Events without timing, which are cheaper to record and to wait for. Recording and waiting are in stream.cc, under the
// stream's lock: the event's clock has to be that of the moment of the record.
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
