// Rows for kernels that keep them in registers: a block has blockDim.y rows at once, and of each row thread x has the
// groups x, x + blockDim.x, ... of kNumLanes<T> consecutive values. Which values are a thread's depends on the row's
// length alone, so sums do not depend on where rows start. Included by .cu files only.
#pragma once

#include <algorithm>
#include <string>

#include "cuda-device/kernels/vectors.cuh"
#include "cuda-device/kernels/warp.cuh"

namespace tessera::cuda {

/// Groups of a thread in rows that are longer than any of GPT-2's.
inline constexpr int kGroupsOfWideRow = 4;
/// The most threads of a row. With 896 each has 72 registers, enough for sums of all columns of its group.
template <int kGroups>
inline constexpr unsigned kRowThreads = kGroups == 1 ? 896 : 1024;
/// The most threads of a block of several rows: two such blocks fit a multiprocessor.
inline constexpr unsigned kThreadsOfRows = kRowThreads<1> / 2;

/// The calling thread's part of one row of matrices with `columns` columns.
template <class T, int kGroups, bool kIsVectors>
class RowPart {
 public:
  static constexpr int kLanes = kNumLanes<T>;
  using Values = float[kGroups][kLanes];

  /// A row beyond the last has no values.
  __device__ RowPart(uint64_t row, uint64_t num_rows, uint64_t columns)
      : start_(row * columns), columns_(row < num_rows ? static_cast<unsigned>(columns) : 0) {}

  /// f(g, j) for all of the thread's values.
  template <class F>
  __device__ static void for_each(const F& f) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int j = 0; j < kLanes; ++j)
        f(g, j);
  }
  __device__ static unsigned group(int g) {
    return threadIdx.x + static_cast<unsigned>(g) * blockDim.x;
  }
  __device__ static unsigned column(int g, int j) {
    return group(g) * kLanes + static_cast<unsigned>(j);
  }
  __device__ bool has(int g, int j) const {
    return column(g, j) < columns_;
  }

  /// Values beyond the row's end, and of no matrix, are 0. No branch: loads that follow one another are under way at
  /// once.
  __device__ void load(const void* matrix, Values& values) const {
    const auto row = [&] { return static_cast<const T*>(matrix) + start_; };
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      uint4 bits{};
      if constexpr (kIsVectors) {
        if (matrix && has(g, 0)) bits = reinterpret_cast<const uint4*>(row())[group(g)];
      } else {
        T lanes[kLanes];
#pragma unroll
        for (int j = 0; j < kLanes; ++j)
          lanes[j] = matrix && has(g, j) ? row()[column(g, j)] : from_float<T>(0.0f);
        memcpy(&bits, lanes, sizeof bits);
      }
      unpack<T>(bits, values[g]);
    }
  }

  /// Writes them, rounded once.
  __device__ void store(const Values& values, void* matrix) const {
    T* const row = static_cast<T*>(matrix) + start_;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if constexpr (kIsVectors) {
        if (has(g, 0)) cuda::store<kLanes>(values[g], row, group(g));
      } else {
#pragma unroll
        for (int j = 0; j < kLanes; ++j)
          if (has(g, j)) row[column(g, j)] = from_float<T>(values[g][j]);
      }
    }
  }

 private:
  const uint64_t start_;
  const unsigned columns_;
};

/// values = their sums over the row's threads, in every one of them. All threads of the block call it, with another
/// `turn` (0 or 1) than the last time.
template <int kNum>
__device__ inline void sum_over_row(float (&values)[kNum], unsigned turn) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2)
#pragma unroll
    for (float& value : values)
      value += __shfl_xor_sync(0xffffffffu, value, offset);
  const unsigned num_warps = blockDim.x / kWarpSize, first = threadIdx.y * num_warps;
  if (num_warps == 1) return;
  __shared__ float of_warps[2][1024 / kWarpSize][kNum];
  if (threadIdx.x % kWarpSize == 0)
#pragma unroll
    for (int k = 0; k < kNum; ++k)
      of_warps[turn][first + threadIdx.x / kWarpSize][k] = values[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kNum; ++k)
    values[k] = of_warps[turn][first][k];
  for (unsigned w = 1; w < num_warps; ++w)
#pragma unroll
    for (int k = 0; k < kNum; ++k)
      values[k] += of_warps[turn][first + w][k];
}

/// The block for rows of so many groups.
template <int kGroups>
dim3 row_block(uint64_t num_groups) {
  const auto threads = static_cast<unsigned>((num_groups + kGroups - 1) / kGroups);
  const unsigned of_row = (threads + kWarpSize - 1) / kWarpSize * kWarpSize;
  return dim3(of_row, std::max(1u, kThreadsOfRows / of_row));
}

/// Groups of a row. Throws UNSUPPORTED for rows that are too long.
template <class T>
uint64_t num_row_groups(uint64_t columns) {
  constexpr uint64_t kMost = uint64_t{kRowThreads<kGroupsOfWideRow>} * kGroupsOfWideRow;
  const uint64_t num_groups = (columns + kNumLanes<T> - 1) / kNumLanes<T>;
  if (num_groups > kMost)
    throw Error(TSR_E_UNSUPPORTED, "layer norm of rows of " + std::to_string(columns) +
                                       " values is not computed here; " + std::to_string(kMost * kNumLanes<T>) +
                                       " are the most");
  return num_groups;
}

/// body.operator()<T, kGroups, kIsVectors>(block) for matrices of this shape at these addresses.
template <class Body, class... Pointers>
void with_rows(const ValueMatrix& shape, const Body& body, Pointers... matrices) {
  with_vectors(
      shape.dtype, shape.columns,
      [&]<int kNum, class T>() {
        const uint64_t num_groups = num_row_groups<T>(shape.columns);
        constexpr bool kIsVectors = kNum > 1;
        if (num_groups <= kRowThreads<1>)
          body.template operator()<T, 1, kIsVectors>(row_block<1>(num_groups));
        else
          body.template operator()<T, kGroupsOfWideRow, kIsVectors>(row_block<kGroupsOfWideRow>(num_groups));
      },
      matrices...);
}

}  // namespace tessera::cuda
