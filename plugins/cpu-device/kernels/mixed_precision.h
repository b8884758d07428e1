// Ops on 16-bit values, but for those of bf16/bf16_ops.h. There is one set of kernels, in float32; an op on bfloat16 or
// float16 values is the float32 op between conversions: what it reads is widened (exactly) into a workspace, what it
// writes is rounded once, to nearest even. So sums, norms and softmax are in float32, and results depend on neither
// position nor number of threads.
#pragma once

#include "cpu-device/kernels/operands.h"

namespace tessera::cpu {

/// The slots of `op`, whose dtype is 16 bits: those that `impl` describes of the float32 op, where parameters, inputs,
/// outputs, their gradients and saved values are of op.dtype, and one more workspace, after the op's own. Statistics,
/// logits and contexts stay float32: a context is what the halves of a backward exchange, and they give the bits of the
/// whole.
SlotList describe_16_bit(const OpImpl& impl, const tsr_op& op);

/// A kernel for slots of describe_16_bit.
std::unique_ptr<Kernel> prepare_16_bit(const OpImpl& impl, const tsr_op& op, std::span<const tsr_slot_spec> slots,
                                       int num_threads);

}  // namespace tessera::cpu
