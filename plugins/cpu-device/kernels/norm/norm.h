// Layer norm over all rows of a tensor [rows, columns], on a team of threads.
#pragma once

#include <cstdint>

#include "cpu-device/kernels/operands.h"

namespace tessera::cpu {

struct NormShape {
  uint64_t rows, columns;
};

inline NormShape norm_shape(const tsr_op& op) {
  return {num_rows(op), extent(op, TSR_DIM_EMBED)};
}

/// What backward needs of forward.
struct NormForBackward {
  const float* x;
  const float* mean;               // [rows]
  const float* inverse_deviation;  // [rows]
};

/// y = norm(x) * weight + bias, and the statistics of each row. Each of y, mean and inverse_deviation may be nullptr.
void norm_forward(NormShape shape, const float* x, const float* weight, const float* bias, float epsilon, float* y,
                  float* mean, float* inverse_deviation, int num_threads);

/// dx = base + the gradient of x, given dy. base may be dx, or nullptr for 0.
void norm_backward_input(NormShape shape, const NormForBackward& kept, const float* weight, const float* dy,
                         const float* base, float* dx, int num_threads);

/// dweight[c] (+)= sum over rows of dy * norm(x).
void norm_backward_weight(NormShape shape, const NormForBackward& kept, const float* dy, bool accumulate,
                          float* dweight, int num_threads);

}  // namespace tessera::cpu
