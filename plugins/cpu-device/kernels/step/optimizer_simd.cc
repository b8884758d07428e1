// AdamW and SGD with momentum, an element at a time, in the order of step_scalars.hpp. Not one fused multiply-add: the
// CUDA kernels round after every operation too, so an optimizer step has the same bits on both. These files are
// compiled without contraction of a * b + c for that reason. Per element AdamW reads 16 bytes and writes 12: memory is
// the limit.
#include "cpu-device/kernels/step/optimizer.h"

namespace tessera::cpu::TESSERA_SIMD {

void adamw(float* __restrict value, const float* __restrict gradient, float* __restrict m, float* __restrict v,
           size_t num_elements, const AdamWFactors& factors) {
  const AdamWFactors f = factors;
  for (size_t i = 0; i < num_elements; ++i) {
    const float g = gradient[i] * f.coefficient;
    const float new_m = f.beta1 * m[i] + f.one_minus_beta1 * g;
    const float new_v = f.beta2 * v[i] + f.one_minus_beta2 * (g * g);
    const float denominator = __builtin_sqrtf(new_v) * f.inverse_sqrt + f.epsilon;
    m[i] = new_m;
    v[i] = new_v;
    value[i] = value[i] * f.decay - f.step_size * (new_m / denominator);
  }
}

void sgd(float* __restrict value, const float* __restrict gradient, float* __restrict m, size_t num_elements,
         const SgdFactors& factors) {
  const SgdFactors f = factors;
  for (size_t i = 0; i < num_elements; ++i) {
    const float g = gradient[i] * f.coefficient + f.weight_decay * value[i];
    const float new_m = f.momentum * m[i] + g;
    m[i] = new_m;
    value[i] = value[i] - f.lr * new_m;
  }
}

}  // namespace tessera::cpu::TESSERA_SIMD
