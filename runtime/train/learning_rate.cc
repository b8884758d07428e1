// A pure function of the step, without state, so any step can be computed alone. The last step of the warm-up has the
// rate lr (hence step + 1), the last step of the run min_lr (hence steps - 1).

#include "train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::host {

double learning_rate(const TrainConfig& config, int64_t step) {
  if (step < config.warmup_steps)
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  if (config.lr_schedule == LrSchedule::constant) return config.lr;
  const int64_t last = std::max<int64_t>(config.steps - 1 - config.warmup_steps, 1);
  const double progress = std::min(1.0, static_cast<double>(step - config.warmup_steps) / static_cast<double>(last));
  const double left =
      config.lr_schedule == LrSchedule::linear ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
  return config.min_lr + (config.lr - config.min_lr) * left;
}

}  // namespace tessera::host
