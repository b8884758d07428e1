// What the ops that make the loss of rows share: the loss itself, the gradient of a row's logits, and the scalars.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/softmax_rows.h"
#include "tessera/accumulator.hpp"

namespace tessera::cpu {

/// Of a token whose logits have this maximum, and this sum of e^(logit - max).
inline float token_loss(double max, double sum, double target_logit) {
  return static_cast<float>(std::log(sum) + max - target_logit);
}

/// What a row's logits are given as, for their gradient.
struct SoftmaxRow {
  const float* logits;
  size_t num_logits;
  float max;
  double sum;      // of e^(logit - max)
  int64_t target;  // -1: the target is not in this row
};

/// gradient (+)= scale (softmax - one at the target). Adding gives the bits of the gradient added to what was there, at
/// the target too.
inline void differentiate_softmax(const SoftmaxRow& row, double scale, bool accumulate, float* gradient) {
  const auto scaled_exp = TESSERA_SIMD_CHOOSE(scaled_exp);
  const auto factor = static_cast<float>(scale / row.sum);
  const float before = accumulate && row.target >= 0 ? gradient[row.target] : 0.0f;
  scaled_exp(row.logits, row.num_logits, row.max, factor, accumulate, gradient);
  if (row.target < 0) return;
  float probability;
  scaled_exp(row.logits + row.target, 1, row.max, factor, false, &probability);
  gradient[row.target] = before + (probability - static_cast<float>(scale));
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
