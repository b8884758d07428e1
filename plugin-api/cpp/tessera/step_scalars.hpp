// SPDX-License-Identifier: Apache-2.0
// The scalars of CLIP, ADAMW and SGD that are computed once for all elements: the same doubles on every device.
//
// A step on a CPU and on a GPU has the same bits in its optimizer because both call these functions and then do the
// same float32 operations an element, in the order the formulas below are written, without fused multiply-adds. AdamW
// is that of Loshchilov and Hutter (2019): weight decay multiplies the value and does not enter m and v.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/accumulator.hpp"
#include "tessera/device.h"

namespace tessera {

/// TSR_SCALAR_CLIP, and whether the step counts. `coefficient` has the loss scale taken out again, so that the
/// optimizer multiplies gradients by it and needs to know neither clipping nor scaling.
struct ClipScalars {
  double coefficient;
  bool ok;
  double norm;
};

/// Clipping by the global norm, as in torch.nn.utils.clip_grad_norm_: min(1, max_norm / (norm + 1e-6)). A norm that
/// is not finite means an overflow on some rank: coefficient 0, and no rank counts or applies the step. So does a sum
/// that is not that of `arrivals` ranks (0: any number): a collective that was cut leaves garbage, where streams cannot
/// fail. The host tells the two apart by the run words.
TESSERA_HOST_DEVICE inline ClipScalars clip_scalars(ConstSquaresView squares, int64_t arrivals, double max_norm,
                                                    double loss_scale) noexcept {
  const double norm = std::sqrt(decode(squares.first<TSR_ACCUMULATOR_LIMBS>())) / loss_scale;
  const bool is_whole = arrivals == 0 || squares[TSR_WORD_ARRIVALS] == arrivals;
  if (!is_whole || !std::isfinite(norm)) return {0, false, norm};
  const double limit = max_norm / (norm + 1e-6);
  return {(max_norm == 0 || limit > 1 ? 1 : limit) / loss_scale, true, norm};
}

/// The settings of an optimizer, equal for all elements of all steps.
struct OptimizerSettings {
  double beta1, beta2, epsilon;

  explicit OptimizerSettings(const tsr_op& op)
      : beta1(op.attributes[TSR_ATTR_BETA1]),
        beta2(op.attributes[TSR_ATTR_BETA2]),
        epsilon(op.attributes[TSR_ATTR_EPSILON]) {}
};

/// The scalars of a step: LR, CLIP's coefficient and STEP, which is 1 in the first.
struct OptimizerStep {
  double lr, coefficient;
  int64_t step;

  /// For a range with a learning rate of its own.
  TESSERA_HOST_DEVICE OptimizerStep scaled(double lr_scale) const noexcept {
    return {lr * lr_scale, coefficient, step};
  }
};

/// Factors of an update, rounded to float32 once:
/// g = coefficient gradient; m = beta1 m + one_minus_beta1 g; v = beta2 v + one_minus_beta2 (g g);
/// value = value decay - step_size (m / (sqrt(v) inverse_sqrt + epsilon)).
struct AdamWFactors {
  float decay;        // 1 - lr * weight_decay
  float coefficient;  // of the gradient
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size;     // lr / (1 - beta1^t)
  float inverse_sqrt;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};
/// g = gradient coefficient + weight_decay value; m = momentum m + g; value = value - lr m.
struct SgdFactors {
  float weight_decay, coefficient, momentum, lr;
};

/// base^exponent by squaring, exponent >= 0. The C library's pow has other last bits on every device.
TESSERA_HOST_DEVICE inline double power(double base, int64_t exponent) noexcept {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

TESSERA_HOST_DEVICE inline AdamWFactors adamw_factors(const OptimizerSettings& settings, const OptimizerStep& step,
                                                      double weight_decay) noexcept {
  return {.decay = static_cast<float>(1 - step.lr * weight_decay),
          .coefficient = static_cast<float>(step.coefficient),
          .beta1 = static_cast<float>(settings.beta1),
          .one_minus_beta1 = static_cast<float>(1 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .one_minus_beta2 = static_cast<float>(1 - settings.beta2),
          .step_size = static_cast<float>(step.lr / (1 - power(settings.beta1, step.step))),
          .inverse_sqrt = static_cast<float>(1 / std::sqrt(1 - power(settings.beta2, step.step))),
          .epsilon = static_cast<float>(settings.epsilon)};
}

TESSERA_HOST_DEVICE inline SgdFactors sgd_factors(const OptimizerSettings& settings, const OptimizerStep& step,
                                                  double weight_decay) noexcept {
  return {.weight_decay = static_cast<float>(weight_decay),
          .coefficient = static_cast<float>(step.coefficient),
          .momentum = static_cast<float>(settings.beta1),
          .lr = static_cast<float>(step.lr)};
}

}  // namespace tessera
