// Additions of matrices, all bound by memory: vectors of 16 bytes where addresses and extents allow it, single values
// where not. Both forms do the same additions in the same order, so alignment changes no bit.
#include "cuda-device/kernels/row_sums.h"

#include "cuda-device/kernels/column_parts.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/row_warps.cuh"

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

// Both results from one read of x: the residual gradient, and the parts of the bias gradient (column_parts.cuh), which
// sum x itself and not what was added to.
template <int kNum, class T>
__global__ void __launch_bounds__(kPartThreads)
    add_or_copy_and_sum_vectors(const T* __restrict__ x, uint64_t rows, uint64_t vectors_of_row, bool accumulates,
                                T* __restrict__ to, float* __restrict__ parts) {
  const PartThread thread = part_thread(rows);
  float sums[kNum] = {};
  if (thread.vector < vectors_of_row) {
#pragma unroll 4
    for (uint64_t row = thread.first; row < thread.end; row += kRowsAtOnce) {
      const uint64_t i = row * vectors_of_row + thread.vector;
      float values[kNum], target[kNum] = {};
      load<kNum>(x, i, values);
      if (to && accumulates) load<kNum>(to, i, target);
#pragma unroll
      for (int j = 0; j < kNum; ++j) {
        target[j] += values[j];
        sums[j] += values[j];
      }
      if (to) store<kNum>(target, to, i);
    }
  }
  if (parts) write_part<kNum>(thread, sums, vectors_of_row, parts);
}

// (a + b) + bias for a residual, a + position for an embedding: a bias is a table of one row, used by all. A warp has a
// row, so the modulo is computed once a row and not once an element.
template <int kNum, class T>
__global__ void __launch_bounds__(kRowWarpThreads)
    add_row_vectors(const T* __restrict__ a, const T* __restrict__ b, const T* __restrict__ table, uint64_t rows,
                    uint64_t vectors_of_row, uint64_t first, uint64_t period, T* __restrict__ y) {
  const uint64_t row = row_of_warp();
  if (row >= rows) return;
  const uint64_t begin = row * vectors_of_row, of_table = (first + row) % period * vectors_of_row;
  for_each_vector(vectors_of_row, [&](uint64_t v) {
    float sum[kNum], values[kNum];
    load<kNum>(a, begin + v, sum);
    if (b) {
      load<kNum>(b, begin + v, values);
#pragma unroll
      for (int j = 0; j < kNum; ++j)
        sum[j] += values[j];
    }
    load<kNum>(table, of_table + v, values);
#pragma unroll
    for (int j = 0; j < kNum; ++j)
      sum[j] += values[j];
    store<kNum>(sum, y, begin + v);
  });
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

void add_or_copy_and_sum(cudaStream_t stream, const ValueMatrix& shape, const void* x, bool accumulates, void* to,
                         float* parts) {
  with_vectors(
      shape.dtype, shape.columns,
      [&]<int kNum, class T>() {
        const uint64_t vectors_of_row = shape.columns / kNum;
        launch(add_or_copy_and_sum_vectors<kNum, T>, part_grid(shape.rows, vectors_of_row), kPartThreads, 0, stream,
               static_cast<const T*>(x), shape.rows, vectors_of_row, accumulates, static_cast<T*>(to), parts);
      },
      x, to);
}

void add_rows(cudaStream_t stream, const ValueMatrix& shape, const void* a, const void* b, const void* table,
              uint64_t first, uint64_t period, void* y) {
  with_vectors(
      shape.dtype, shape.columns,
      [&]<int kNum, class T>() {
        launch(add_row_vectors<kNum, T>, row_warp_grid(shape.rows), kRowWarpThreads, 0, stream,
               static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const T*>(table), shape.rows,
               shape.columns / kNum, first, period, static_cast<T*>(y));
      },
      a, b, table, y);
}

}  // namespace tessera::cuda
