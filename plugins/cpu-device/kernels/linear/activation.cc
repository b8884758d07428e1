// GELU in its tanh form (Hendrycks and Gimpel 2016, as GPT-2 has it) and ReLU. Written with the logistic function
// instead of tanh, since (1 + tanh(u)) / 2 = 1 / (1 + e^(-2u)) needs one exponential, which this file has vectorised,
// and loses no digits for negative x. With g = that value and u' the slope of u, gelu'(x) = g + x g (1 - g) 2u'.
#include "cpu-device/kernels/linear/activation.h"

#include "cpu-device/kernels/vector_math.h"

namespace tessera::cpu::TESSERA_SIMD {
namespace {

constexpr float kTwiceSqrt2OverPi = 1.59576912f;
constexpr float kCubic = 0.044715f;

// (1 + tanh(u)) / 2 = 1 / (1 + e^(-2u)), which keeps its relative precision where tanh(u) is near -1.
struct Gate {
  float e;      // e^(-2u)
  float value;  // 1 / (1 + e)
};

inline __attribute__((always_inline)) Gate gate(float x) {
  const float twice_u = kTwiceSqrt2OverPi * x * __builtin_fmaf(kCubic * x, x, 1.0f);
  // Beyond, the gate is 0 at float's precision of any activation, and its inverse would soon be subnormal and slow.
  const bool is_shut = twice_u < -60.0f;
  const float e = exp(is_shut ? 0.0f : -twice_u);
  return {e, is_shut ? 0.0f : 1.0f / (1.0f + e)};
}

}  // namespace

void gelu(const float* x, size_t num_elements, float* y) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    y[i] = x[i] * gate(x[i]).value;
}

void gelu_backward(const float* x, const float* dy, size_t num_elements, float* dx) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i) {
    const Gate g = gate(x[i]);
    const float slope = kTwiceSqrt2OverPi * __builtin_fmaf(3.0f * kCubic * x[i], x[i], 1.0f);  // of 2u
    const float gate_slope = (g.e * g.value) * g.value * slope;
    dx[i] = dy[i] * __builtin_fmaf(x[i], gate_slope, g.value);
  }
}

void relu(const float* x, size_t num_elements, float* y) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

void relu_backward(const float* x, const float* dy, size_t num_elements, float* dx) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    dx[i] = x[i] > 0.0f ? dy[i] : 0.0f;
}

}  // namespace tessera::cpu::TESSERA_SIMD
