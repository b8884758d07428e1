// Activations, where they are not fused to a product, and the gradients of their arguments and of biases.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda-device/kernels/value_matrix.h"

namespace tessera::cuda {

using op::Activation;

/// Enqueues: every row of out = bias[columns].
void fill_rows(cudaStream_t stream, const ValueMatrix& shape, const void* bias, void* out);

/// Enqueues: y = activation(z), not kNone; y may be z.
void activate(cudaStream_t stream, Activation activation, const ValueMatrix& shape, const void* z, void* y);

/// Enqueues: dz = dy activation'(z), and the parts [num_parts(rows), columns] of the sums of its columns, before dz is
/// rounded; `parts` may be null. With kNone z and dz are not used: the parts are of dy.
void differentiate_activation(cudaStream_t stream, Activation activation, const ValueMatrix& shape, const void* z,
                              const void* dy, void* dz, float* parts);

}  // namespace tessera::cuda
