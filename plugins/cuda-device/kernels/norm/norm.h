// Layer norm of the rows of a matrix: norm(x) = (x - mean) / sqrt(variance + epsilon). Shared by the ops with and
// without a residual sum.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda-device/kernels/value_matrix.h"

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

/// A gradient, and whether it is added to.
struct GradientTarget {
  void* to = nullptr;  // null: left out
  bool accumulates = false;
};

/// Operands of a backward; null ones are left out.
struct NormBackward {
  const void* x;  // of the norm, and its statistics
  const float* mean;
  const float* inverse;
  const void* weight =
      nullptr;  // without it there is no gradient of x: total is base, and nothing but parts is written
  const void* dy;
  const void* base = nullptr;
  void* total = nullptr;           // base + the gradient of x; may be base
  GradientTarget targets[2] = {};  // (+)= total
  float* parts = nullptr;          // [num_sums, num_norm_parts(rows), columns]
};

/// Rows are summed in at most 256 parts, two for each multiprocessor of the larger GPUs.
constexpr uint64_t rows_of_norm_part(uint64_t rows) {
  constexpr uint64_t kMaxParts = 256, kMinRows = 16;
  return std::max(kMinRows, (rows + kMaxParts - 1) / kMaxParts);
}
constexpr uint64_t num_norm_parts(uint64_t rows) {
  return (rows + rows_of_norm_part(rows) - 1) / rows_of_norm_part(rows);
}

/// Enqueues the backward, with the parts of `num_sums` sums over rows: of dy norm(x), of dy and, of 3, of total,
/// rounded.
void norm_backward(cudaStream_t stream, const ValueMatrix& shape, uint32_t num_sums, const NormBackward& operands);

/// Throws UNSUPPORTED for rows that the kernels above do not take.
void check_norm(const ValueMatrix& shape);

}  // namespace tessera::cuda
