#include <string>

#include "cpu-device/kernels/families.h"
#include "cpu-device/kernels/mixed_precision.h"
#include "cpu-device/slots.h"
#include "tessera/error.hpp"

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

/// Throws UNSUPPORTED unless values are float32, bfloat16 or float16, and gradients of parameters float32.
void check_dtypes(const tsr_op& op) {
  if (op.dtype != TSR_F32 && op.dtype != TSR_BF16 && op.dtype != TSR_F16)
    throw Error(TSR_E_UNSUPPORTED, "op " + std::to_string(op.kind) + " on values of " + dtype_name(op.dtype) +
                                       " is not computed here; float32, bfloat16 and float16 are");
  if (op.dtype != TSR_F32 && (op.kind == TSR_OP_SOFTMAX_STATS || op.kind == TSR_OP_LOSS_GRAD))
    throw Error(TSR_E_UNSUPPORTED, "op " + std::to_string(op.kind) + " on values of " + dtype_name(op.dtype) +
                                       " is not computed here; logits are float32, whatever the dtype of values");
  if (op.phase != TSR_PHASE_FORWARD && op.gradient_dtype != TSR_F32)
    throw Error(TSR_E_UNSUPPORTED, "op " + std::to_string(op.kind) + " with gradients of parameters in " +
                                       dtype_name(op.gradient_dtype) +
                                       " is not computed here; they are float32, whatever the dtype of values");
}

/// Float32, or an op that only moves values, whatever their dtype.
bool needs_no_conversion(const tsr_op& op) {
  return op.dtype == TSR_F32 || (op.kind == TSR_OP_TOKEN_EMBEDDING && op.phase == TSR_PHASE_FORWARD);
}

SlotList describe(const tsr_op& op) {
  check_dtypes(op);
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
