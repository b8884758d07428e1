// The ops of segments in float32, one family each; tessera/device.h has their formulas and slots. mixed_precision.h
// makes 16-bit ops of them.
#pragma once

#include "cpu-device/kernel.h"

namespace tessera::cpu {

extern const OpFamily kTokenEmbedding;
extern const OpFamily kPositionEmbedding;
extern const OpFamily kLayerNorm;
extern const OpFamily kLinear;
extern const OpFamily kAttention;
extern const OpFamily kAddLayerNorm;
extern const OpFamily kAdd;
extern const OpFamily kLoss;
extern const OpFamily kHeadLogits;
extern const OpFamily kSoftmaxStats;
extern const OpFamily kLossGrad;

}  // namespace tessera::cpu
