// Sums of matrices, element by element. Shared by ops that add rows.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda-device/kernels/value_matrix.h"

namespace tessera::cuda {

/// Enqueues: to (+)= x, element by element.
void add_or_copy(cudaStream_t stream, const ValueMatrix& shape, const void* x, bool accumulates, void* to);

/// Enqueues: to (+)= x, and the parts [num_parts(rows), columns] of the sums of the columns of x; either may be null.
void add_or_copy_and_sum(cudaStream_t stream, const ValueMatrix& shape, const void* x, bool accumulates, void* to,
                         float* parts);

/// Enqueues: y[r] = a[r] + table[(first + r) % period], rows of `shape`; if `b`, y[r] = (a[r] + b[r]) + table[...].
/// A period of 1 adds a bias.
void add_rows(cudaStream_t stream, const ValueMatrix& shape, const void* a, const void* b, const void* table,
              uint64_t first, uint64_t period, void* y);

}  // namespace tessera::cuda
