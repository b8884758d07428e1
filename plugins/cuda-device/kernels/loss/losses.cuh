// What ops that make the losses of rows share. Included by .cu files only.
#pragma once

#include "cuda-device/kernels/accumulator.cuh"
#include "tessera/operands.hpp"

namespace tessera::cuda {

/// Of a row whose logits have this maximum, and this sum of e^(logit - max).
__device__ inline float row_loss(float max, float sum, float target_logit) {
  return static_cast<float>(log(double{sum}) + double{max} - double{target_logit});
}

/// How losses become gradients: TSR_ATTR_SCALE times what is at loss_scale, TSR_SCALAR_LOSS_SCALE on the device or
/// null.
struct GradientScale {
  double scale;
  const double* loss_scale;

  __device__ double value() const { return loss_scale ? scale * *loss_scale : scale; }
};

/// The same of an op.
class GradientScaleOperand {
 public:
  GradientScaleOperand(const tsr_op& op, std::span<const tsr_slot_spec> slots)
      : scale_(op.attributes[TSR_ATTR_SCALE]),
        loss_scale_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE)) {}

  GradientScale in(void* const* pointers) const { return {scale_, loss_scale_.in<const double>(pointers)}; }

 private:
  double scale_;
  op::Operand loss_scale_;
};

}  // namespace tessera::cuda
