// What the ops that make the loss of tokens share: the loss itself, and the scalars.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "cpu-device/kernels/operands.h"
#include "tessera/accumulator.hpp"

namespace tessera::cpu {

/// Of a token whose logits have this maximum, and this sum of e^(logit - max).
inline float token_loss(double max, double sum, double target_logit) {
  return static_cast<float>(std::log(sum) + max - target_logit);
}

class LossScalars {
 public:
  LossScalars(const tsr_op& op, std::span<const tsr_slot_spec> slots)
      : scale_(op.attributes[TSR_ATTR_SCALE]),
        loss_(find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_LOSS)),
        loss_scale_(find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE)) {}

  /// x:LOSS as losses are added to it: zero when it is overwritten.
  AccumulatorView start_loss(void* const* pointers) const {
    const AccumulatorView loss(loss_.in<int64_t>(pointers), TSR_ACCUMULATOR_LIMBS);
    if (!loss_.accumulates) std::fill(loss.begin(), loss.end(), 0);
    return loss;
  }

  /// Factor of every token's gradient.
  double gradient_scale(void* const* pointers) const {
    return loss_scale_.is_bound() ? scale_ * *loss_scale_.in<const double>(pointers) : scale_;
  }

 private:
  const double scale_;
  const Operand loss_, loss_scale_;
};

}  // namespace tessera::cpu
