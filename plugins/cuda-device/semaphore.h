// Semaphores: how a stream waits for the host, or for a stream of another device.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda-device/stream.h"

namespace tessera::cuda {

/// A timeline semaphore: a counter in pinned host memory, which the GPU polls by itself.
class Semaphore {
 public:
  explicit Semaphore(const Context& context);  // at 0
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  /// Later work on `stream` starts once the counter is at `value` or above. [issue-thread]
  void wait(Stream& stream, uint32_t value);
  /// Raises the counter to `value`; one that is above stays. [any-thread]
  void signal(uint32_t value) noexcept;

 private:
  using WaitValue = CUresult(CUDAAPI*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

  const Context& context_;
  WaitValue wait_value_ = nullptr;
  uint32_t* counter_ = nullptr;
};

}  // namespace tessera::cuda
