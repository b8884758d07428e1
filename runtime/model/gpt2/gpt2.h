// GPT-2 as units and segments.
#pragma once

#include "model/gpt2/gpt2_config.h"
#include "model/model.h"
#include "model/model_builder.h"

namespace tessera::host {

/// Segments, in forward order:  wte | wpe | per block: ln_1 | qkv | attention | proj | add_ln_2 | fc_gelu | fc_proj |
/// add | ln_f | loss. Units: wte (tied), wpe, each block, ln_f. Throws INVALID_ARGUMENT when seq exceeds the model's
/// positions.
Model make_gpt2(const Gpt2Config& config, const BatchShape& shape);

}  // namespace tessera::host
