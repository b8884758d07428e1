// Layer norm of dense rows of C elements: norm(x) = (x - mean) / sqrt(variance + epsilon).
#pragma once

#include <cstddef>

#include "cpu-device/kernels/simd.h"

namespace tessera::cpu {

/// What the norm of a row is made with.
struct NormStatistics {
  float mean;
  float inverse_deviation;  // 1 / sqrt(variance + epsilon)
};

TESSERA_SIMD_DECLARE(
    NormStatistics norm_statistics(const float* x, size_t num_columns, float epsilon);
    /** y = norm(x) * weight + bias. */
    void norm_row(const float* x, NormStatistics statistics, const float* weight, const float* bias, size_t num_columns,
                  float* y);
    /** dx = base + the gradient of x, given dy, that of norm_row's y; base is dx itself, another row, or nullptr for 0.
     */
    void norm_row_backward(const float* x, NormStatistics statistics, const float* weight, const float* dy,
                           const float* base, size_t num_columns, float* dx);
    /** dweight[c] (+)= sum over rows of dy * norm(x), for num_columns columns of rows that are `stride` apart. */
    void norm_weight_gradient(const float* x, const float* mean, const float* inverse_deviation, const float* dy,
                              size_t num_rows, size_t num_columns, size_t stride, bool accumulate, float* dweight);)

}  // namespace tessera::cpu
