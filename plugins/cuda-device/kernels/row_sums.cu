#include "cuda-device/kernels/row_sums.h"

#include "cuda-device/kernels/vectors.cuh"
#include "cuda-device/launch.h"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumThreads = 256;

template <int kNum, class T>
__global__ void __launch_bounds__(kNumThreads)
    add_or_copy_vectors(const T* __restrict__ x, uint64_t num_vectors, bool accumulates, T* __restrict__ to) {
  const uint64_t i = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (i >= num_vectors) return;
  float values[kNum], sum[kNum] = {};
  load<kNum>(x, i, values);
  if (accumulates) load<kNum>(to, i, sum);
#pragma unroll
  for (int j = 0; j < kNum; ++j)
    sum[j] += values[j];
  store<kNum>(sum, to, i);
}

template <int kNum, class T>
__global__ void __launch_bounds__(kNumThreads)
    add_row_vectors(const T* __restrict__ a, const T* __restrict__ b, const T* __restrict__ table,
                    uint64_t vectors_of_row, uint64_t num_vectors, uint64_t first, uint64_t period, T* __restrict__ y) {
  const uint64_t i = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (i >= num_vectors) return;
  float sum[kNum], values[kNum];
  load<kNum>(a, i, sum);
  if (b) {
    load<kNum>(b, i, values);
#pragma unroll
    for (int j = 0; j < kNum; ++j)
      sum[j] += values[j];
  }
  load<kNum>(table, (first + i / vectors_of_row) % period * vectors_of_row + i % vectors_of_row, values);
#pragma unroll
  for (int j = 0; j < kNum; ++j)
    sum[j] += values[j];
  store<kNum>(sum, y, i);
}

}  // namespace

void add_or_copy(cudaStream_t stream, const ValueMatrix& shape, const void* x, bool accumulates, void* to) {
  with_vectors(
      shape.dtype, shape.rows * shape.columns,
      [&]<int kNum, class T>() {
        const uint64_t num_vectors = shape.rows * shape.columns / kNum;
        launch(add_or_copy_vectors<kNum, T>, blocks_for(num_vectors, kNumThreads), kNumThreads, 0, stream,
               static_cast<const T*>(x), num_vectors, accumulates, static_cast<T*>(to));
      },
      x, to);
}

void add_rows(cudaStream_t stream, const ValueMatrix& shape, const void* a, const void* b, const void* table,
              uint64_t first, uint64_t period, void* y) {
  with_vectors(
      shape.dtype, shape.columns,
      [&]<int kNum, class T>() {
        const uint64_t num_vectors = shape.rows * shape.columns / kNum;
        launch(add_row_vectors<kNum, T>, blocks_for(num_vectors, kNumThreads), kNumThreads, 0, stream,
               static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const T*>(table), shape.columns / kNum,
               num_vectors, first, period, static_cast<T*>(y));
      },
      a, b, table, y);
}

}  // namespace tessera::cuda
