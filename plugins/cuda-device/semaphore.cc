// The GPU's front end polls a 32-bit counter in pinned memory (cuStreamWaitValue32): no kernel and no thread is held
// up. A host function that waits would hold up those of all streams, which CUDA runs on one thread. Comparison is of
// the difference as a signed number, here and on the GPU (GEQ), so the counter may wrap around.
#include "cuda-device/semaphore.h"

#include <atomic>
#include <string>

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {
namespace {

// cuStreamWaitValue32 of the driver, which we do not link.
void* find_wait_value() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000, cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion");
#else
  check(cudaGetDriverEntryPoint("cuStreamWaitValue32", &function, cudaEnableDefault, &result),
        "cudaGetDriverEntryPoint");
#endif
  if (!function || result != cudaDriverEntryPointSuccess)
    throw Error(TSR_E_UNSUPPORTED, "the NVIDIA driver has no cuStreamWaitValue32; install one for CUDA 12 or later");
  return function;
}

}  // namespace

// Memory that CUDA allocates on the host has one address for both.
Semaphore::Semaphore(const Context& context) : context_(context) {
  context_.make_current();
  wait_value_ = reinterpret_cast<WaitValue>(find_wait_value());
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof *counter_, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  counter_ = new (memory) uint32_t(0);
}

Semaphore::~Semaphore() {
  context_.try_make_current();
  cudaFreeHost(counter_);
}

// Without CU_STREAM_WAIT_VALUE_FLUSH, which is for writes of other devices into this one: what the host wrote before it
// signaled is in the host's memory.
void Semaphore::wait(Stream& stream, uint32_t value) {
  context_.make_current();
  const CUresult result =
      wait_value_(stream.handle(), reinterpret_cast<CUdeviceptr>(counter_), value, CU_STREAM_WAIT_VALUE_GEQ);
  if (result != CUDA_SUCCESS)
    throw Error(TSR_E_INTERNAL, "cuStreamWaitValue32 failed with CUresult " + std::to_string(result));
}

// Two threads may signal one semaphore, and the later value wins: the counter is never lowered, or a stream that was
// let pass in one run would be held in the next. Release, so that what was written before is visible when the counter
// is.
void Semaphore::signal(uint32_t value) noexcept {
  const std::atomic_ref<uint32_t> counter(*counter_);
  uint32_t current = counter.load(std::memory_order_relaxed);
  while (static_cast<int32_t>(value - current) > 0 &&
         !counter.compare_exchange_weak(current, value, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace tessera::cuda
