// From TSR_OP_* to the family that computes it: the one place to change when an op is added, beside its own file,
// families.h and sources.cmake. nullptr makes the device refuse the op by name.
#include "cuda-device/kernels/families.h"

namespace tessera::cuda {

const OpFamily* find_family(uint32_t kind) {
  switch (kind) {
    case TSR_OP_TOKEN_EMBEDDING:
      return &kTokenEmbedding;
    case TSR_OP_POSITION_EMBEDDING:
      return &kPositionEmbedding;
    case TSR_OP_LAYER_NORM:
      return &kLayerNorm;
    case TSR_OP_ADD_LAYER_NORM:
      return &kAddLayerNorm;
    case TSR_OP_ADD:
      return &kAdd;
    case TSR_OP_COPY:
    case TSR_OP_CAST:
    case TSR_OP_ADD_INTO:
    case TSR_OP_SCALE:
      return &kElementwise;
    case TSR_OP_ZERO:
      return &kZero;
    case TSR_OP_LINEAR:
      return &kLinear;
    case TSR_OP_ATTENTION:
      return &kAttention;
    case TSR_OP_LOSS:
      return &kLoss;
    case TSR_OP_HEAD_LOGITS:
      return &kHeadLogits;
    case TSR_OP_SOFTMAX_STATS:
      return &kSoftmaxStats;
    case TSR_OP_LOSS_GRAD:
      return &kLossGrad;
    case TSR_OP_SUM_SQUARES:
      return &kSumSquares;
    case TSR_OP_CLIP:
      return &kClip;
    case TSR_OP_ADAMW:
    case TSR_OP_SGD:
      return &kOptimizer;
    default:
      return nullptr;
  }
}

}  // namespace tessera::cuda
