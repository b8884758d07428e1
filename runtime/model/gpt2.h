// GPT-2 as units and segments.
#pragma once

#include "model/gpt2_config.h"
#include "model/model.h"

namespace tessera::host {

/// What a micro-batch looks like, and the one scale of the loss: 1 / (tokens of the whole step over all data ranks).
struct BatchShape {
  int64_t batch = 1;
  int64_t seq = 1;
  double loss_scale = 1.0;
  tsr_dtype dtype = TSR_F32;  ///< of values and of the parameters that are computed with; gradients are float32
};

/// Segments, in forward order:  wte | wpe | per block: ln_1 | qkv | attention | proj | add_ln_2 | fc_gelu | fc_proj |
/// add | ln_f | loss. Units: wte (tied), wpe, each block, ln_f. Throws INVALID_ARGUMENT when seq exceeds the model's
/// positions.
Model make_gpt2(const Gpt2Config& config, const BatchShape& shape);

}  // namespace tessera::host
