#include "optim/loss_scaler.h"

#include <algorithm>

namespace tessera {

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

}  // namespace tessera
