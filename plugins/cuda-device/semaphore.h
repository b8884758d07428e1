// Gates: how a stream waits for the host.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda-device/stream.h"

namespace tessera::cuda {

/// A counter in pinned host memory, at which the GPU looks by itself.
class Gate {
 public:
  explicit Gate(const Context& context);  // at 0
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Later work on `stream` starts once the gate is at `value` or above. [issue-thread]
  void wait(Stream& stream, uint32_t value);
  /// Raises it to `value`; a gate that is above stays. [any-thread]
  void open(uint32_t value) noexcept;

 private:
  using WaitValue = CUresult(CUDAAPI*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

  const Context& context_;
  WaitValue wait_value_ = nullptr;
  uint32_t* counter_ = nullptr;
};

}  // namespace tessera::cuda
