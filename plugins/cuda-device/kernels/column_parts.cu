#include "cuda-device/kernels/column_parts.cuh"
#include "cuda-device/launch.h"

namespace tessera::cuda {
namespace {

// A block has kWarpSize columns; each of its warps has every kRowsAtOnce-th part.
__global__ void __launch_bounds__(kPartThreads)
    sum_parts(const float* parts, uint64_t num_parts, uint64_t columns, bool accumulates, float* sums) {
  const unsigned lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const uint64_t column = uint64_t{blockIdx.x} * kWarpSize + lane;
  float sum = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (uint64_t p = warp; p < num_parts; p += kRowsAtOnce)
      sum += parts[p * columns + column];
  }
  __shared__ float of_warps[kRowsAtOnce][kWarpSize];
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (unsigned w = 1; w < kRowsAtOnce; ++w)
    sum += of_warps[w][lane];
  sums[column] = accumulates ? sums[column] + sum : sum;
}

}  // namespace

void add_parts(cudaStream_t stream, const float* parts, uint64_t rows, uint64_t columns, bool accumulates,
               float* sums) {
  launch(sum_parts, blocks_for(columns, kWarpSize), kPartThreads, 0, stream, parts, num_parts(rows), columns,
         accumulates, sums);
}

}  // namespace tessera::cuda
