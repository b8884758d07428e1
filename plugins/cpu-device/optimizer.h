// The loops of the optimizers, for every instruction set. Element i depends on element i of the operands only.
#pragma once

#include <cstddef>

#include "cpu-device/simd.h"

namespace tessera::cpu {

/// What is the same for all elements of one update, rounded to float32 once.
struct AdamWFactors {
  float decay;        // 1 - lr * weight_decay
  float coefficient;  // of the gradient
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size;     // lr / (1 - beta1^t)
  float inverse_sqrt;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};
struct SgdFactors {
  float weight_decay, coefficient, momentum, lr;
};

// Operands do not overlap.
TESSERA_SIMD_DECLARE(
    /// g = coefficient * gradient; value *= decay; m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g g;
    /// value -= step_size * m / (sqrt(v) * inverse_sqrt + epsilon)
    void adamw(float* value, const float* gradient, float* m, float* v, size_t num_elements, const AdamWFactors& f);
    /// m = momentum m + (coefficient * gradient + weight_decay * value); value -= lr m
    void sgd(float* value, const float* gradient, float* m, size_t num_elements, const SgdFactors& f);)

}  // namespace tessera::cpu
