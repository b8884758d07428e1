// The ops that this device computes, one line each: declarations and the lookup of ops.cc follow from it. An op has its
// kernel in a file of its own, which defines the object that is named here. Ops of segments compute in float32;
// mixed_precision.h makes 16-bit ops of them, and bf16/bf16_ops.h has kernels for bfloat16.
#pragma once

#include "cpu-device/kernel.h"

// OP(kind, implementation)
#define TESSERA_CPU_OPS(OP)                         \
  OP(TSR_OP_TOKEN_EMBEDDING, kTokenEmbedding)       \
  OP(TSR_OP_POSITION_EMBEDDING, kPositionEmbedding) \
  OP(TSR_OP_LAYER_NORM, kLayerNorm)                 \
  OP(TSR_OP_LINEAR, kLinear)                        \
  OP(TSR_OP_ATTENTION, kAttention)                  \
  OP(TSR_OP_ADD_LAYER_NORM, kAddLayerNorm)          \
  OP(TSR_OP_ADD, kAdd)                              \
  OP(TSR_OP_LOSS, kLoss)                            \
  OP(TSR_OP_HEAD_LOGITS, kHeadLogits)               \
  OP(TSR_OP_SOFTMAX_STATS, kSoftmaxStats)           \
  OP(TSR_OP_LOSS_GRAD, kLossGrad)                   \
  OP(TSR_OP_CROSS_ENTROPY, kCrossEntropy)           \
  OP(TSR_OP_COPY, kElementwise)                     \
  OP(TSR_OP_CAST, kElementwise)                     \
  OP(TSR_OP_ADD_INTO, kElementwise)                 \
  OP(TSR_OP_SCALE, kScale)                          \
  OP(TSR_OP_ZERO, kZero)                            \
  OP(TSR_OP_SUM_SQUARES, kSumSquares)               \
  OP(TSR_OP_CLIP, kClip)                            \
  OP(TSR_OP_ADAMW, kAdamW)                          \
  OP(TSR_OP_SGD, kSgd)

namespace tessera::cpu {

#define TESSERA_DECLARE_OP(kind, implementation) extern const OpImpl implementation;
TESSERA_CPU_OPS(TESSERA_DECLARE_OP)
#undef TESSERA_DECLARE_OP

}  // namespace tessera::cpu
