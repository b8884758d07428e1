// Activations, elementwise.
#pragma once

#include <cstddef>

#include "cpu-device/kernels/simd.h"

namespace tessera::cpu {

TESSERA_SIMD_DECLARE(
    /** y = gelu(x), tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); y may be x. */
    void gelu(const float* x, size_t num_elements, float* y);
    /** dx = dy * gelu'(x); dx may be dy. */
    void gelu_backward(const float* x, const float* dy, size_t num_elements, float* dx);
    /** y = max(x, 0), NaN stays; y may be x. */
    void relu(const float* x, size_t num_elements, float* y);
    /** dx = dy where x > 0, else 0; dx may be dy. */
    void relu_backward(const float* x, const float* dy, size_t num_elements, float* dx);)

}  // namespace tessera::cpu
