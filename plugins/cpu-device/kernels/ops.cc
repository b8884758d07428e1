// From TSR_OP_* to a family, with or without the conversions of 16-bit values around it (mixed_precision.h). The one
// place to change when an op of segments is added, beside its own file and families.h.
#include "cpu-device/kernels/families.h"
#include "cpu-device/kernels/mixed_precision.h"
#include "tessera/op_slots.hpp"

namespace tessera::cpu {
namespace {

const OpFamily* float32_family(uint32_t kind) {
  switch (kind) {
    case TSR_OP_TOKEN_EMBEDDING:
      return &kTokenEmbedding;
    case TSR_OP_POSITION_EMBEDDING:
      return &kPositionEmbedding;
    case TSR_OP_LAYER_NORM:
      return &kLayerNorm;
    case TSR_OP_LINEAR:
      return &kLinear;
    case TSR_OP_ATTENTION:
      return &kAttention;
    case TSR_OP_ADD_LAYER_NORM:
      return &kAddLayerNorm;
    case TSR_OP_ADD:
      return &kAdd;
    case TSR_OP_LOSS:
      return &kLoss;
    case TSR_OP_HEAD_LOGITS:
      return &kHeadLogits;
    case TSR_OP_SOFTMAX_STATS:
      return &kSoftmaxStats;
    case TSR_OP_LOSS_GRAD:
      return &kLossGrad;
    default:
      return nullptr;
  }
}

/// Float32, or an op that only moves values, whatever their dtype.
bool needs_no_conversion(const tsr_op& op) {
  return op.dtype == TSR_F32 || (op.kind == TSR_OP_TOKEN_EMBEDDING && op.phase == TSR_PHASE_FORWARD);
}

SlotList describe(const tsr_op& op) {
  op::check_segment_dtypes(op);
  const OpFamily& family = *float32_family(op.kind);
  return needs_no_conversion(op) ? family.describe(op) : describe_16_bit(family, op);
}

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads) {
  const OpFamily& family = *float32_family(op.kind);
  return needs_no_conversion(op) ? family.prepare(op, slots, num_threads)
                                 : prepare_16_bit(family, op, slots, num_threads);
}

constexpr OpFamily kFamily = {describe, prepare};

}  // namespace

const OpFamily* compute_ops(uint32_t kind) {
  return float32_family(kind) ? &kFamily : nullptr;
}

}  // namespace tessera::cpu
