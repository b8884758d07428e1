// The gradient of q|k|v of some sequences and heads, added to where it belongs.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda-device/kernels/attention/attention_parts.h"

namespace tessera::cuda {

/// Adds `part`, the packed gradient [part.batch, T, 3, part.heads, D] of sequences from `first_sequence` and heads from
/// `first_head` on, to `gradient` [B, T, 3, H, D]; both of dtype float16 or bfloat16. [issue-thread]
void add_attention_gradient(cudaStream_t stream, const AttentionShape& shape, const AttentionPart& part,
                            int64_t first_sequence, int64_t first_head, tsr_dtype dtype, const void* part_gradient,
                            void* gradient);

}  // namespace tessera::cuda
