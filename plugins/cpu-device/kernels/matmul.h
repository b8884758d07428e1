// Matrix products: oneDNN's sgemm. Of oneDNN's two interfaces it is the faster one for GPT-2's shapes (the weights'
// gradients by a tenth), takes any extents and strides without preparation, and its bits do not depend on alignment.
#pragma once

#include <cstdint>

namespace tessera::cpu {

/// A row-major matrix in place: element (i, j) is data[i * stride + j], or data[j * stride + i] if transposed.
struct ConstMatrix {
  const float* data;
  uint64_t stride;
  bool transposed = false;
};
struct Matrix {
  float* data;
  uint64_t stride;
};

struct ProductExtents {
  uint64_t m, n, k;
};

/// c[m,n] = a[m,k] b[k,n], or += if `accumulate`, by a team of `num_threads` (by one thread inside a parallel region).
/// What c held does not matter when it is overwritten, be it NaN. c overlaps neither operand. Throws INTERNAL.
void matmul(ProductExtents extents, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate, int num_threads);

}  // namespace tessera::cpu
