// The parts of softmax over a row.
#pragma once

#include <cstddef>

#include "cpu-device/kernels/simd.h"

namespace tessera::cpu {

TESSERA_SIMD_DECLARE(
    /** The largest element, -infinity of none; NaN may be passed over. */
    float row_max(const float* x, size_t num_elements);
    /** The sum of e^(scale * (x - max)). */
    double exp_sum(const float* x, size_t num_elements, float max, float scale);
    /** x = e^(scale * (x - max)), and the sum of that, the same as exp_sum's. */
    double exp_in_place(float* x, size_t num_elements, float max, float scale);
    /** y (+)= factor * e^(x - max). */
    void scaled_exp(const float* x, size_t num_elements, float max, float factor, bool accumulate, float* y);
    /** x *= factor. */
    void scale_row(float* x, size_t num_elements, float factor);
    /** x = e^(scale * x - log_sum). */
    void softmax_in_place(float* x, size_t num_elements, float scale, float log_sum);
    /** dp = scale * p * (dp - delta), the gradient of the scores, given that of the probabilities p. */
    void softmax_backward(const float* p, size_t num_elements, float scale, float delta, float* dp);
    float dot(const float* a, const float* b, size_t num_elements);)

}  // namespace tessera::cpu
