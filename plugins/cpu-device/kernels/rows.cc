// column_sums adds four rows at a time: one load and store of the sums for four rows, and a shorter chain of dependent
// additions. The grouping depends on the number of rows alone.
#include "cpu-device/kernels/rows.h"

namespace tessera::cpu::TESSERA_SIMD {

void add(const float* a, const float* b, size_t num_elements, float* out) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    out[i] = a[i] + b[i];
}

void add_bias(const float* a, const float* b, const float* bias, size_t num_rows, size_t num_columns, float* out) {
  for (size_t r = 0; r < num_rows; ++r) {
    const size_t row = r * num_columns;
#pragma omp simd
    for (size_t c = 0; c < num_columns; ++c)
      out[row + c] = (a[row + c] + b[row + c]) + bias[c];
  }
}

void fill_rows(const float* bias, size_t num_rows, size_t num_columns, float* out) {
  for (size_t r = 0; r < num_rows; ++r)
    __builtin_memcpy(out + r * num_columns, bias, num_columns * sizeof(float));
}

void column_sums(const float* x, size_t num_rows, size_t num_columns, size_t stride, bool accumulate, float* sums) {
  if (!accumulate) __builtin_memset(sums, 0, num_columns * sizeof(float));
  size_t r = 0;
  for (; r + 4 <= num_rows; r += 4) {
    const float* row = x + r * stride;
#pragma omp simd
    for (size_t c = 0; c < num_columns; ++c)
      sums[c] += (row[c] + row[stride + c]) + (row[2 * stride + c] + row[3 * stride + c]);
  }
  for (; r < num_rows; ++r) {
    const float* row = x + r * stride;
#pragma omp simd
    for (size_t c = 0; c < num_columns; ++c)
      sums[c] += row[c];
  }
}

}  // namespace tessera::cpu::TESSERA_SIMD
