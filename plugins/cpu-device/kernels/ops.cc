// From TSR_OP_* to its implementation. On 16-bit values it is the bfloat16 kernel where there is one, else the float32
// kernel between conversions.
#include "cpu-device/kernels/ops.h"

#include "cpu-device/kernels/bf16/bf16_ops.h"
#include "cpu-device/kernels/mixed_precision.h"
#include "cpu-device/kernels/op_table.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

const OpImpl& implementation(const tsr_op& op) {
  switch (op.kind) {
#define TESSERA_CASE_OP(kind, implementation) \
  case kind:                                  \
    return implementation;
    TESSERA_CPU_OPS(TESSERA_CASE_OP)
#undef TESSERA_CASE_OP
    default:
      throw Error(TSR_E_UNSUPPORTED, "this device does not compute op " + op::op_name(op.kind));
  }
}

/// Elementwise and step ops have loops for each dtype; ops of segments compute in float32, unless they only move
/// values.
bool needs_conversion(const tsr_op& op) {
  if (op.dtype == TSR_F32 || !op::find_op(op.kind)->is_segment_op()) return false;
  op::check_segment_dtypes(op);
  return !(op.kind == TSR_OP_TOKEN_EMBEDDING && op.phase == TSR_PHASE_FORWARD);
}

const OpImpl* bf16_implementation(const tsr_op& op) {
  if (op.dtype != TSR_BF16) return nullptr;
  switch (op.kind) {
    case TSR_OP_LINEAR:
      return &kBf16Linear;
    case TSR_OP_LOSS:
      return &kBf16Loss;
    case TSR_OP_HEAD_LOGITS:
      return &kBf16HeadLogits;
    default:
      return nullptr;
  }
}

}  // namespace

op::SlotList describe_op(const tsr_op& op) {
  if (const OpImpl* impl = bf16_implementation(op)) return impl->describe(op);
  const OpImpl& impl = implementation(op);
  return needs_conversion(op) ? describe_16_bit(impl, op) : impl.describe(op);
}

std::unique_ptr<Kernel> prepare_op(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads) {
  if (const OpImpl* impl = bf16_implementation(op)) return impl->prepare(op, slots, num_threads);
  const OpImpl& impl = implementation(op);
  return needs_conversion(op) ? prepare_16_bit(impl, op, slots, num_threads) : impl.prepare(op, slots, num_threads);
}

}  // namespace tessera::cpu
