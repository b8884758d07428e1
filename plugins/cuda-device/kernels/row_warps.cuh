// Rows for kernels that stream them: each warp of a block has one, so a place in a row costs no division. Included by
// .cu files only.
#pragma once

#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/vectors.cuh"
#include "cuda-device/kernels/warp.cuh"

namespace tessera::cuda {

inline constexpr unsigned kRowWarpThreads = 256;
inline constexpr unsigned kLanesOfRow = kWarpSize;

inline dim3 row_warp_grid(uint64_t rows) {
  return dim3(blocks_for(rows, kRowWarpThreads / kLanesOfRow));
}

/// The row of the calling thread's warp; the last block may have some beyond the end.
__device__ inline uint64_t row_of_warp() {
  return uint64_t{blockIdx.x} * (kRowWarpThreads / kLanesOfRow) + threadIdx.x / kLanesOfRow;
}

/// f(v) for the row's vectors that are the calling thread's.
template <class F>
__device__ inline void for_each_vector(uint64_t vectors_of_row, const F& f) {
#pragma unroll 4
  for (uint64_t v = threadIdx.x % kLanesOfRow; v < vectors_of_row; v += kLanesOfRow)
    f(v);
}

}  // namespace tessera::cuda
