// Sums along and across rows, and rows added to rows. The order of additions depends on the extents only.
#pragma once

#include <cstddef>

#include "cpu-device/kernels/simd.h"

namespace tessera::cpu {

TESSERA_SIMD_DECLARE(
    /** out = a + b; out may be a or b. */
    void add(const float* a, const float* b, size_t num_elements, float* out);
    /** out[r][c] = (a[r][c] + b[r][c]) + bias[c] for num_rows dense rows; out overlaps nothing. */
    void add_bias(const float* a, const float* b, const float* bias, size_t num_rows, size_t num_columns, float* out);
    /** out[r][c] = bias[c]. */
    void fill_rows(const float* bias, size_t num_rows, size_t num_columns, float* out);
    /** sums[c] (+)= sum over r of x[r * stride + c], c < num_columns. */
    void column_sums(const float* x, size_t num_rows, size_t num_columns, size_t stride, bool accumulate, float* sums);)

}  // namespace tessera::cpu
