// Sums over the rows of a matrix, in parts: a block makes kWarpSize vectors of one part, and its warps share the rows.
// Included by .cu files only.
#pragma once

#include "cuda-device/kernels/column_parts.h"
#include "cuda-device/kernels/vectors.cuh"
#include "cuda-device/kernels/warp.cuh"

namespace tessera::cuda {

inline constexpr unsigned kRowsAtOnce = 8;  // one a warp
inline constexpr unsigned kPartThreads = kWarpSize * kRowsAtOnce;

/// The grid for parts of [rows, vectors_of_row].
inline dim3 part_grid(uint64_t rows, uint64_t vectors_of_row, unsigned num_matrices = 1) {
  return dim3(static_cast<unsigned>(num_parts(rows)),
              static_cast<unsigned>((vectors_of_row + kWarpSize - 1) / kWarpSize), num_matrices);
}

/// Which elements a thread has.
struct PartThread {
  unsigned lane, warp;
  uint64_t vector;      // of every row
  uint64_t first, end;  // rows: first, first + kRowsAtOnce, ...
};
__device__ inline PartThread part_thread(uint64_t rows) {
  const unsigned lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const uint64_t begin = blockIdx.x * kRowsOfPart;
  return {lane, warp, uint64_t{blockIdx.y} * kWarpSize + lane, begin + warp,
          begin + kRowsOfPart < rows ? begin + kRowsOfPart : rows};
}

/// Adds up the block's sums, in the order of its warps, and writes them to its part of parts[num_parts, columns]. All
/// threads call it once.
template <int kNum>
__device__ inline void write_part(const PartThread& thread, const float (&sums)[kNum], uint64_t vectors_of_row,
                                  float* parts) {
  __shared__ float of_warps[kRowsAtOnce][kNum][kWarpSize];
#pragma unroll
  for (int j = 0; j < kNum; ++j)
    of_warps[thread.warp][j][thread.lane] = sums[j];
  __syncthreads();
  const uint64_t first = uint64_t{blockIdx.y} * kWarpSize * kNum, columns = vectors_of_row * kNum;
  for (unsigned c = threadIdx.x; c < kWarpSize * kNum && first + c < columns; c += kPartThreads) {
    float sum = 0.0f;
    for (unsigned w = 0; w < kRowsAtOnce; ++w)
      sum += of_warps[w][c % kNum][c / kNum];
    parts[blockIdx.x * columns + first + c] = sum;
  }
}

}  // namespace tessera::cuda
