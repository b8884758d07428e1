// The ops that this device computes, one line each: op_table.cc, declarations and lookups follow from it. An op has its
// kernels in files of its own, one of which defines the object that is named here. Values are float32, bfloat16 or
// float16; every kernel computes in float32 and rounds what it writes once.
#pragma once

#include "cuda-device/kernel.h"

// OP(kind, implementation)
#define TESSERA_CUDA_OPS(OP)                        \
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
  OP(TSR_OP_SCALE, kElementwise)                    \
  OP(TSR_OP_ZERO, kZero)                            \
  OP(TSR_OP_SUM_SQUARES, kSumSquares)               \
  OP(TSR_OP_CLIP, kClip)                            \
  OP(TSR_OP_ADAMW, kOptimizer)                      \
  OP(TSR_OP_SGD, kOptimizer)

namespace tessera::cuda {

#define TESSERA_DECLARE_OP(kind, implementation) extern const OpImpl implementation;
TESSERA_CUDA_OPS(TESSERA_DECLARE_OP)
#undef TESSERA_DECLARE_OP

/// The implementation of op.kind. Throws UNSUPPORTED, with the op's name, if there is none.
const OpImpl& implementation_of(const tsr_op& op);

}  // namespace tessera::cuda
