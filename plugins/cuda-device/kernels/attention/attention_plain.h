// Attention on our own kernels: any dtype, head dims up to kMaxHeadDim, float32 arithmetic, memory linear in the
// sequence. No sum depends on anything but the extents.
#pragma once

#include <memory>
#include <span>

#include "cuda-device/kernel.h"
#include "cuda-device/kernels/attention/attention_shape.h"

namespace tessera::cuda {

inline constexpr int64_t kMaxHeadDim = 256;

/// float32 elements of scratch at the begin of slot w0 that a backward needs.
inline uint64_t plain_attention_scratch(const AttentionShape& shape) {
  return static_cast<uint64_t>(shape.num_statistics());
}

/// Slots as attention.cc describes them. [control-thread]
std::unique_ptr<Kernel> plain_attention_forward(const tsr_op& op, std::span<const tsr_slot_spec> slots);
std::unique_ptr<Kernel> plain_attention_backward(const tsr_op& op, std::span<const tsr_slot_spec> slots);

}  // namespace tessera::cuda
