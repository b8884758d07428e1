// Launches kernels and gives them dynamic shared memory. Included by .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {

/// Enqueues `kernel` with a grid of blocks. `shared_bytes` of dynamic shared memory beyond 48 KiB must have been
/// allowed with cudaFuncSetAttribute in prepare. Empty grids are not launched.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...),
        "a kernel's launch");
}

#ifdef __CUDACC__
/// The block's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char tessera_dynamic_shared[];
  return reinterpret_cast<T*>(tessera_dynamic_shared);
}
#endif

/// ceil(n / d), as a grid's extent.
constexpr unsigned blocks_for(uint64_t n, uint64_t d) {
  return static_cast<unsigned>((n + d - 1) / d);
}

}  // namespace tessera::cuda
