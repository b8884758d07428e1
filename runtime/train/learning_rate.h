// The learning rate of a step.
#pragma once

#include <cstdint>

#include "config/train_config.h"

namespace tessera::host {

/// `step` counts from 0. Warm-up is linear from lr / warmup_steps to lr; then the rate is constant, or falls to min_lr,
/// linearly or along half a cosine, and reaches it in the last of config.steps.
double learning_rate(const TrainConfig& config, int64_t step);

}  // namespace tessera::host
