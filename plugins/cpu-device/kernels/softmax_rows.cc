// exp_sum and exp_in_place must give one sum for one row: FORWARD of the loss uses the first and BACKWARD the second,
// and an evaluation has to report the loss that training would. So both take the same blocks and the same lanes. All
// exponents are of x - max, at most 0: nothing overflows, and what underflows to 0 would not change the sum.
#include "cpu-device/kernels/softmax_rows.h"

#include "cpu-device/kernels/lanes.h"
#include "cpu-device/kernels/vector_math.h"

namespace tessera::cpu::TESSERA_SIMD {
namespace {

// Float lanes sum a block, doubles the blocks: so long rows lose no precision.
constexpr size_t kBlock = 1024;

inline size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

inline void exp_block(const float* x, size_t num_elements, float max, float scale, float* y) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    y[i] = exp(scale * (x[i] - max));
}

inline float block_sum(const float* x, size_t num_elements) {
  return lane_sum(num_elements, [&](size_t i, size_t n, Lanes& terms) { load(x + i, n, 0.0f, terms); });
}

}  // namespace

// Starts from -infinity, so a row of no elements has no maximum, and the padding lanes of the last vector never win.
float row_max(const float* x, size_t num_elements) {
  Lanes largest = Lanes{} - __builtin_inff(), values;
  size_t i = 0;
  for (; i + kNumLanes <= num_elements; i += kNumLanes) {
    load(x + i, kNumLanes, 0.0f, values);
    largest = values > largest ? values : largest;
  }
  if (i < num_elements) {
    load(x + i, num_elements - i, -__builtin_inff(), values);
    largest = values > largest ? values : largest;
  }
  float max = largest[0];
  for (size_t l = 1; l < kNumLanes; ++l)
    max = largest[l] > max ? largest[l] : max;
  return max;
}

double exp_sum(const float* x, size_t num_elements, float max, float scale) {
  double sum = 0.0;
  float block[kBlock];
  for (size_t i = 0; i < num_elements; i += kBlock) {
    const size_t n = smaller(kBlock, num_elements - i);
    exp_block(x + i, n, max, scale, block);
    sum += static_cast<double>(block_sum(block, n));
  }
  return sum;
}

double exp_in_place(float* x, size_t num_elements, float max, float scale) {
  double sum = 0.0;
  for (size_t i = 0; i < num_elements; i += kBlock) {
    const size_t n = smaller(kBlock, num_elements - i);
    exp_block(x + i, n, max, scale, x + i);
    sum += static_cast<double>(block_sum(x + i, n));
  }
  return sum;
}

void scaled_exp(const float* x, size_t num_elements, float max, float factor, bool accumulate, float* y) {
  if (accumulate) {
#pragma omp simd
    for (size_t i = 0; i < num_elements; ++i)
      y[i] += factor * exp(x[i] - max);
  } else {
#pragma omp simd
    for (size_t i = 0; i < num_elements; ++i)
      y[i] = factor * exp(x[i] - max);
  }
}

void scale_row(float* x, size_t num_elements, float factor) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    x[i] *= factor;
}

void softmax_in_place(float* x, size_t num_elements, float scale, float log_sum) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    x[i] = exp(__builtin_fmaf(scale, x[i], -log_sum));
}

void softmax_backward(const float* p, size_t num_elements, float scale, float delta, float* dp) {
#pragma omp simd
  for (size_t i = 0; i < num_elements; ++i)
    dp[i] = scale * (p[i] * (dp[i] - delta));
}

float dot(const float* a, const float* b, size_t num_elements) {
  return lane_sum(num_elements, [&](size_t i, size_t n, Lanes& terms) {
    Lanes factors;
    load(a + i, n, 0.0f, terms);
    load(b + i, n, 0.0f, factors);
    terms *= factors;
  });
}

}  // namespace tessera::cpu::TESSERA_SIMD
