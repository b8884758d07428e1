#include "cpu-device/kernels/families.h"

namespace tessera::cpu {

const OpFamily* compute_ops(uint32_t kind) {
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
    default:
      return nullptr;
  }
}

}  // namespace tessera::cpu
