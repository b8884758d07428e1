// Layer norm of the rows of a matrix: norm(x) = (x - mean) / sqrt(variance + epsilon). Shared by the ops with and
// without a residual sum.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda-device/kernels/activation.h"

namespace tessera::cuda {

/// Operands of a forward; null ones are left out. Values have the shape's dtype.
struct NormForward {
  const void* x;
  const void* branch = nullptr;  // [rows, columns]; with it x is replaced by the sum x + branch + sum_bias
  const void* sum_bias = nullptr;
  void* sum = nullptr;  // that sum; the norm is of the one that is not rounded
  const void* weight;
  const void* bias;
  void* y;         // norm(x) * weight + bias
  float* mean;     // [rows]
  float* inverse;  // [rows]: 1 / sqrt(variance + epsilon)
};

/// Enqueues the forward.
void norm_forward(cudaStream_t stream, const ValueMatrix& shape, float epsilon, const NormForward& operands);

/// What the backward needs of the forward.
struct NormKept {
  const void* x;
  const float* mean;
  const float* inverse;
};

/// A gradient, and whether it is added to.
struct GradientTarget {
  void* to = nullptr;  // null: left out
  bool accumulates = false;
};

/// Enqueues: total = base + the gradient of x, and each target (+)= total. `base` may be null for 0, `total` null.
void norm_backward_input(cudaStream_t stream, const ValueMatrix& shape, const NormKept& kept, const void* weight,
                         const void* dy, const void* base, void* total, GradientTarget first, GradientTarget second);

/// Enqueues the parts, [num_parts(rows), columns] each, of the sums over rows of dy norm(x) and of dy.
void norm_weight_parts(cudaStream_t stream, const ValueMatrix& shape, const NormKept& kept, const void* dy,
                       float* weight_parts, float* bias_parts);

/// Throws UNSUPPORTED for rows that the kernels above do not take.
void check_norm(const ValueMatrix& shape);

}  // namespace tessera::cuda
