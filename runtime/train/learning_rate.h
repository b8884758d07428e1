// The learning rate of a step.
#pragma once

#include <cstdint>

#include "config/train_config.h"

namespace tessera::host {

/// `step` counts from 0. Warm-up is linear from lr / warmup_steps to lr; then constant, or linear or along half a
/// cosine down to min_lr, which is reached with the last of config.steps.
double learning_rate(const TrainConfig& config, int64_t step);

}  // namespace tessera::host
