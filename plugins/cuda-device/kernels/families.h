// The ops, one family each; tessera/device.h has their formulas and slots. Values are float32, bfloat16 or float16;
// every kernel computes in float32 and rounds what it writes once.
#pragma once

#include "cuda-device/kernel.h"

namespace tessera::cuda {

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
extern const OpFamily kElementwise;  // copy, cast, add_into, scale
extern const OpFamily kZero;
extern const OpFamily kSumSquares;
extern const OpFamily kClip;
extern const OpFamily kOptimizer;  // AdamW, SGD

}  // namespace tessera::cuda
