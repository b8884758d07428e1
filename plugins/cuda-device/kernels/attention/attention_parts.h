// How much of an op of attention cuDNN takes at a time, and what scratch that needs: what describe must know without
// asking cuDNN. Its deterministic backward keeps a 16-bit gradient of every score: for long sequences more than there
// is room for at once, so it goes over sequences, or heads of one sequence, in parts.
#pragma once

#include <algorithm>

#include "cuda-device/context.h"
#include "cuda-device/kernels/attention/attention_shape.h"

namespace tessera::cuda {

/// Of cuDNN's forward; of all its versions that were asked, the most was 256.
inline constexpr int64_t kCudnnForwardBytes = int64_t{1} << 16;

/// Bytes of slot w0 of a forward: cuDNN's, then its statistics, which are written there when they are not kept.
inline int64_t forward_scratch_bytes(const AttentionShape& shape) {
  return kCudnnForwardBytes + shape.num_statistics() * static_cast<int64_t>(sizeof(float));
}

/// True if cuDNN may be asked: 16 bits, head dims in steps of 8 up to 128, more than one token.
inline bool cudnn_may_compute(const tsr_op& op, const AttentionShape& shape) {
  return (op.dtype == TSR_BF16 || op.dtype == TSR_F16) && shape.head_dim % 8 == 0 && shape.head_dim <= 128 &&
         shape.sequence > 1;
}

/// So many sequences and heads of each at a time; all heads if more than one sequence. They divide the op's.
struct AttentionPart {
  int64_t num_heads() const { return batch * heads; }
  auto operator<=>(const AttentionPart&) const = default;

  int64_t batch, heads;
};

/// Bytes of cuDNN's own scratch for a head's backward: gradients of scores in 16 bits, of tiles of 128; or without
/// determinism sums of q's gradient in float32, of which sm_80 has two; and a float32 per token.
inline int64_t cudnn_backward_bytes(const AttentionShape& shape) {
  const int64_t padded = (shape.sequence + 127) / 128 * 128;
  return std::max(2 * padded * padded, 8 * padded * shape.head_dim) + 4 * shape.sequence;
}

/// Bytes of the gradient of a head's q|k|v, kept when it is to be added to what is there.
inline int64_t attention_gradient_bytes(const AttentionShape& shape) {
  return 2 * shape.sequence * 3 * shape.head_dim;
}

/// As large as it may be with at most `part_bytes` of scratch; one head may need more.
inline AttentionPart attention_part(const AttentionShape& shape, int64_t part_bytes = kMaxPartBytes) {
  const auto largest_divisor = [](int64_t n, int64_t limit) {
    int64_t divisor = std::clamp(limit, int64_t{1}, n);
    while (n % divisor != 0)
      --divisor;
    return divisor;
  };
  if (shape.sequence % 4 != 0) return {shape.batch, shape.heads};  // parts' statistics would not be aligned
  const int64_t num_heads = part_bytes / (cudnn_backward_bytes(shape) + attention_gradient_bytes(shape));
  if (num_heads < shape.heads) return {1, largest_divisor(shape.heads, num_heads)};
  return {largest_divisor(shape.batch, num_heads / shape.heads), shape.heads};
}

/// Bytes of slot w0 of a backward: cuDNN's, then the part's gradient.
struct AttentionScratch {
  explicit AttentionScratch(const AttentionShape& shape) {
    const AttentionPart part = attention_part(shape);
    cudnn = (part.num_heads() * cudnn_backward_bytes(shape) + kCudnnForwardBytes + 255) / 256 * 256;
    gradient = part.num_heads() * attention_gradient_bytes(shape);
  }
  int64_t cudnn, gradient;
};

}  // namespace tessera::cuda
