// The rows of the table's gradient that the product leaves out, at most 7: each is a sum over tokens of x, weighted by
// one column of dlogits. A product with so few rows would be slow; as a sum of columns it reads x once for each.
#include "cuda-device/kernels/column_parts.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/loss/lm_head.h"

namespace tessera::cuda {
namespace {

// blockIdx.z is the column of dlogits.
template <int kNum, class T>
__global__ void __launch_bounds__(kPartThreads)
    multiply(const T* __restrict__ x, uint64_t rows, uint64_t vectors_of_row, const T* __restrict__ dlogits,
             uint64_t width, float* __restrict__ parts) {
  const PartThread thread = part_thread(rows);
  float sums[kNum] = {};
  if (thread.vector < vectors_of_row) {
#pragma unroll 4
    for (uint64_t row = thread.first; row < thread.end; row += kRowsAtOnce) {
      const float factor = to_float(dlogits[row * width + blockIdx.z]);
      float values[kNum];
      load<kNum>(x, row * vectors_of_row + thread.vector, values);
#pragma unroll
      for (int j = 0; j < kNum; ++j)
        sums[j] = fmaf(factor, values[j], sums[j]);
    }
  }
  write_part<kNum>(thread, sums, vectors_of_row, parts + blockIdx.z * num_parts(rows) * vectors_of_row * kNum);
}

}  // namespace

void multiply_last_columns(cudaStream_t stream, tsr_dtype dtype, uint64_t rows, uint64_t columns, const void* x,
                           const void* dlogits, uint64_t width, uint64_t num_columns, float* parts) {
  with_vectors(
      dtype, columns,
      [&]<int kNum, class T>() {
        const uint64_t vectors_of_row = columns / kNum;
        launch(multiply<kNum, T>, part_grid(rows, vectors_of_row, static_cast<unsigned>(num_columns)), kPartThreads, 0,
               stream, static_cast<const T*>(x), rows, vectors_of_row, static_cast<const T*>(dlogits), width, parts);
      },
      x);
}

}  // namespace tessera::cuda
