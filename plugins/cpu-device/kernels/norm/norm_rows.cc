// Layer norm of one row, by two passes for the statistics: the mean, then the squares of the differences from it. The
// one-pass form, E[x^2] - E[x]^2, cancels for rows far from zero. Sums are of 16 lanes (lanes.h), the same bits at
// every instruction-set level. The gradient, with y = norm(x), h = dy weight and s = 1 / std:
//     dx = s (h - mean(h) - y mean(h y))
#include "cpu-device/kernels/norm/norm_rows.h"

#include "cpu-device/kernels/lanes.h"

namespace tessera::cpu::TESSERA_SIMD {

NormStatistics norm_statistics(const float* x, size_t num_columns, float epsilon) {
  const float inverse_columns = 1.0f / static_cast<float>(num_columns);
  const float mean =
      lane_sum(num_columns, [&](size_t i, size_t n, Lanes& terms) { load(x + i, n, 0.0f, terms); }) * inverse_columns;
  const float squares = lane_sum(num_columns, [&](size_t i, size_t n, Lanes& terms) {
    load(x + i, n, mean, terms);
    terms -= mean;
    terms *= terms;
  });
  return {mean, 1.0f / __builtin_sqrtf(squares * inverse_columns + epsilon)};
}

void norm_row(const float* x, NormStatistics statistics, const float* weight, const float* bias, size_t num_columns,
              float* y) {
#pragma omp simd
  for (size_t c = 0; c < num_columns; ++c)
    y[c] = __builtin_fmaf((x[c] - statistics.mean) * statistics.inverse_deviation, weight[c], bias[c]);
}

void norm_row_backward(const float* x, NormStatistics statistics, const float* weight, const float* dy,
                       const float* base, size_t num_columns, float* dx) {
  const float inverse_columns = 1.0f / static_cast<float>(num_columns);
  const float gradient_mean = inverse_columns * lane_sum(num_columns, [&](size_t i, size_t n, Lanes& terms) {
                                Lanes weights;
                                load(dy + i, n, 0.0f, terms);
                                load(weight + i, n, 0.0f, weights);
                                terms *= weights;
                              });
  const float projection = inverse_columns * lane_sum(num_columns, [&](size_t i, size_t n, Lanes& terms) {
                             Lanes weights, values;
                             load(dy + i, n, 0.0f, terms);
                             load(weight + i, n, 0.0f, weights);
                             load(x + i, n, 0.0f, values);
                             terms = (terms * weights) * ((values - statistics.mean) * statistics.inverse_deviation);
                           });
  const auto gradient = [&](size_t c) {
    const float normed = (x[c] - statistics.mean) * statistics.inverse_deviation;
    return statistics.inverse_deviation * (dy[c] * weight[c] - gradient_mean - normed * projection);
  };
  if (base) {
#pragma omp simd
    for (size_t c = 0; c < num_columns; ++c)
      dx[c] = base[c] + gradient(c);
  } else {
#pragma omp simd
    for (size_t c = 0; c < num_columns; ++c)
      dx[c] = gradient(c);
  }
}

// Row after row into the sums of all columns of this thread: a column at a time would touch a cache line a row.
void norm_weight_gradient(const float* x, const float* mean, const float* inverse_deviation, const float* dy,
                          size_t num_rows, size_t num_columns, size_t stride, bool accumulate, float* dweight) {
  if (!accumulate) __builtin_memset(dweight, 0, num_columns * sizeof(float));
  for (size_t r = 0; r < num_rows; ++r) {
    const float row_mean = mean[r], row_scale = inverse_deviation[r];
    const float* row = x + r * stride;
    const float* row_gradient = dy + r * stride;
#pragma omp simd
    for (size_t c = 0; c < num_columns; ++c)
      dweight[c] += row_gradient[c] * ((row[c] - row_mean) * row_scale);
  }
}

}  // namespace tessera::cpu::TESSERA_SIMD
