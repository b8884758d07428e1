// Rows for kernels with one block a row: each thread has groups of kNumLanes<T> consecutive values, which it keeps in
// registers. Which values are a thread's depends on the row's length alone, so sums do not depend on where rows start.
// Included by .cu files only.
#pragma once

#include <cub/block/block_reduce.cuh>

#include <string>

#include "cuda-device/kernels/vectors.cuh"

namespace tessera::cuda {

inline constexpr int kGroupsOfThread = 4;

/// A row of `columns` values; `is_vectors`: every group is whole and aligned in all operands.
struct RowShape {
  uint64_t columns;
  bool is_vectors;

  template <class T>
  __device__ bool has_group(uint64_t group) const {
    return group * kNumLanes<T> < columns;
  }
};

/// The group's values; 0 beyond the row's end.
template <class T>
__device__ inline void load_group(const RowShape& shape, const T* row, uint64_t group, float (&values)[kNumLanes<T>]) {
  if (shape.is_vectors) return unpack<T>(reinterpret_cast<const uint4*>(row)[group], values);
#pragma unroll
  for (int j = 0; j < kNumLanes<T>; ++j) {
    const uint64_t c = group * kNumLanes<T> + j;
    values[j] = c < shape.columns ? to_float(row[c]) : 0.0f;
  }
}

/// Writes the group, rounded once.
template <class T>
__device__ inline void store_group(const RowShape& shape, const float (&values)[kNumLanes<T>], T* row, uint64_t group) {
  if (shape.is_vectors) return store<kNumLanes<T>>(values, row, group);
#pragma unroll
  for (int j = 0; j < kNumLanes<T>; ++j)
    if (const uint64_t c = group * kNumLanes<T> + j; c < shape.columns) row[c] = from_float<T>(values[j]);
}

/// The sum over the block, in every thread. All threads call it.
template <int kThreads>
__device__ inline float block_sum(float value) {
  using Reduce = cub::BlockReduce<float, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ float total;
  const float sum = Reduce(storage).Sum(value);
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  const float result = total;
  __syncthreads();  // before the next sum uses the same memory
  return result;
}

/// Threads enough for a row. Throws UNSUPPORTED for rows that are too long.
template <class T>
int num_row_threads(uint64_t columns) {
  constexpr uint64_t kOfThread = uint64_t{kGroupsOfThread} * kNumLanes<T>;
  for (const int threads : {64, 256, 1024})
    if (columns <= static_cast<uint64_t>(threads) * kOfThread) return threads;
  throw Error(TSR_E_UNSUPPORTED, "layer norm of rows of " + std::to_string(columns) + " values is not computed here; " +
                                     std::to_string(1024 * kOfThread) + " are the most");
}

/// body.operator()<kThreads>() with so many threads.
template <class T, class Body>
void with_row_threads(uint64_t columns, const Body& body) {
  switch (num_row_threads<T>(columns)) {
    case 64:
      return body.template operator()<64>();
    case 256:
      return body.template operator()<256>();
    default:
      return body.template operator()<1024>();
  }
}

}  // namespace tessera::cuda
