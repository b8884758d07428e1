// The ops of segments, one family each; tessera/device.h has their formulas and slots.
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

}  // namespace tessera::cpu
