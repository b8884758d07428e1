// Dynamic loss scaling (Micikevicius et al. 2018). The scale is halved at once after an overflow and doubled only after
// many good steps: a scale that is too large costs a step, one that is too small only some bits of small gradients.
// Powers of two leave the mantissa of a gradient that stays in range unchanged.

#include "train/loss_scaler.h"

#include <algorithm>

namespace tessera::host {

void LossScaler::update(bool updated) {
  if (!is_dynamic_) return;
  if (!updated) {
    scale_ = std::max(kMinScale, scale_ * kBackoff);
    num_updates_ = 0;
  } else if (++num_updates_ == kGrowthInterval) {
    scale_ *= kGrowth;
    num_updates_ = 0;
  }
}

}  // namespace tessera::host
