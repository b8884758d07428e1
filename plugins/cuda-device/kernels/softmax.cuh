// Softmax over a row. Included by .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "cuda-device/kernels/values.cuh"

namespace tessera::cuda {

inline constexpr float kLowest = -1e30f;  // below every logit, and finite, so that nothing is infinity minus infinity

/// e^(x - max) by the hardware's power of two; 0 for x = -infinity.
__device__ inline float shifted_exp(float x, float max) {
  return exp2f((x - max) * kLog2E);
}

/// The largest of some numbers, kLowest of none, and the sum of e^(number - max). NaNs and infinities make sum NaN.
struct MaxAndSum {
  float max = kLowest, sum = 0.0f;

  template <int kNum>
  __device__ void add(const float (&x)[kNum]) {
    float largest = max;
#pragma unroll
    for (const float value : x)
      largest = fmaxf(largest, value);
    sum *= shifted_exp(max, largest);
#pragma unroll
    for (const float value : x)
      sum += shifted_exp(value, largest);
    max = largest;
  }
};

struct Combine {
  __device__ MaxAndSum operator()(const MaxAndSum& a, const MaxAndSum& b) const {
    const float max = fmaxf(a.max, b.max);
    return {max, a.sum * shifted_exp(a.max, max) + b.sum * shifted_exp(b.max, max)};
  }
};

}  // namespace tessera::cuda
