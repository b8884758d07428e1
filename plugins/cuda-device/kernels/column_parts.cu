// The second half of a sum over rows: parts are added in their order, one thread a column. Atomics would need no second
// kernel and give other bits in every run.
#include <algorithm>

#include "cuda-device/kernels/column_parts.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/warp.cuh"

namespace tessera::cuda {
namespace {

constexpr unsigned kMaxPartsAtOnce = 32;  // one a warp

struct ColumnSums {
  ColumnSum of[kMaxColumnSums];
};

// A block has kWarpSize columns of one sum, and each of its warps every num_warps-th part.
__global__ void __launch_bounds__(kWarpSize* kMaxPartsAtOnce)
    sum_parts(const float* parts, uint64_t num_parts, uint64_t columns, ColumnSums sums) {
  const ColumnSum target = sums.of[blockIdx.y];
  if (!target.to) return;
  parts += blockIdx.y * num_parts * columns;
  const unsigned lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize, num_warps = blockDim.x / kWarpSize;
  const uint64_t column = uint64_t{blockIdx.x} * kWarpSize + lane;
  float sum = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (uint64_t p = warp; p < num_parts; p += num_warps)
      sum += parts[p * columns + column];
  }
  __shared__ float of_warps[kMaxPartsAtOnce][kWarpSize];
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (unsigned w = 1; w < num_warps; ++w)
    sum += of_warps[w][lane];
  target.to[column] = target.accumulates ? target.to[column] + sum : sum;
}

}  // namespace

void add_parts(cudaStream_t stream, const float* parts, uint64_t num_parts, uint64_t columns,
               std::initializer_list<ColumnSum> sums) {
  ColumnSums all;
  std::copy(sums.begin(), sums.end(), all.of);
  const auto num_warps = static_cast<unsigned>(std::min<uint64_t>(num_parts, kMaxPartsAtOnce));
  launch(sum_parts, dim3(blocks_for(columns, kWarpSize), static_cast<unsigned>(sums.size())), kWarpSize * num_warps, 0,
         stream, parts, num_parts, columns, all);
}

}  // namespace tessera::cuda
