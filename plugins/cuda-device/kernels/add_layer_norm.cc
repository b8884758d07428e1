// o0 = i0 + i1 + p0; o1 = norm(o0) * p1 + p2; s0 mean, s1 1 / std of o0's rows. Both inputs have the gradient
// total = do0 + (gradient of o0 through the norm); the input half leaves it to the weight half.
#include "cuda-device/kernels/column_parts.h"
#include "cuda-device/kernels/families.h"
#include "cuda-device/kernels/norm.h"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr uint32_t kTotal = 0;  // context
constexpr uint32_t kParts = 1;  // workspaces: of p0's, p1's and p2's gradient

ValueMatrix shape_of(const tsr_op& op) {
  return {op.dtype, op::num_rows(op), op::extent(op, TSR_DIM_EMBED)};
}

class Forward final : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(shape_of(op)),
        epsilon_(static_cast<float>(op.attributes[TSR_ATTR_EPSILON])),
        sum_bias_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        weight_(op::find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        bias_(op::find_operand(slots, TSR_ROLE_PARAMETER, 2)),
        residual_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        branch_(op::find_operand(slots, TSR_ROLE_INPUT, 1)),
        sum_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        normed_(op::find_operand(slots, TSR_ROLE_OUTPUT, 1)),
        mean_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_(op::find_operand(slots, TSR_ROLE_SAVED, 1)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    norm_forward(stream, shape_, epsilon_,
                 {.x = residual_.in<void>(pointers),
                  .branch = branch_.in<void>(pointers),
                  .sum_bias = sum_bias_.in<void>(pointers),
                  .sum = sum_.in<void>(pointers),
                  .weight = weight_.in<void>(pointers),
                  .bias = bias_.in<void>(pointers),
                  .y = normed_.in<void>(pointers),
                  .mean = mean_.in(pointers),
                  .inverse = inverse_.in(pointers)});
  }

 private:
  const ValueMatrix shape_;
  const float epsilon_;
  const op::Operand sum_bias_, weight_, bias_, residual_, branch_, sum_, normed_, mean_, inverse_;
};

class Backward final : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(shape_of(op)),
        phase_(op.phase),
        weight_(op::find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        sum_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        mean_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_(op::find_operand(slots, TSR_ROLE_SAVED, 1)),
        sum_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        normed_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 1)),
        total_(op::find_context(op, slots, kTotal)),
        residual_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        branch_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 1)) {
    for (uint32_t i = 0; i < 3; ++i) {
      gradients_[i] = op::find_operand(slots, TSR_ROLE_GRADIENT, i);
      parts_[i] = op::find_operand(slots, TSR_ROLE_WORKSPACE, kParts + i);
    }
  }

  void launch(cudaStream_t stream, void* const* pointers) override {
    const NormKept kept{sum_.in<void>(pointers), mean_.in(pointers), inverse_.in(pointers)};
    if (op::has_input_half(phase_))
      norm_backward_input(stream, shape_, kept, weight_.in<void>(pointers), normed_gradient_.in<void>(pointers),
                          sum_gradient_.in<void>(pointers), total_.in<void>(pointers),
                          target(residual_gradient_, pointers), target(branch_gradient_, pointers));
    if (op::has_weight_half(phase_)) launch_weight_half(stream, pointers, kept);
  }

 private:
  static GradientTarget target(const op::Operand& gradient, void* const* pointers) {
    return {gradient.in<void>(pointers), gradient.accumulates};
  }

  void launch_weight_half(cudaStream_t stream, void* const* pointers, const NormKept& kept) const {
    if (gradients_[0].is_bound())
      differentiate_activation(stream, Activation::kNone, shape_, nullptr, total_.in<void>(pointers), nullptr,
                               parts_[0].in(pointers));
    if (gradients_[1].is_bound() || gradients_[2].is_bound())
      norm_weight_parts(stream, shape_, kept, normed_gradient_.in<void>(pointers), parts_[1].in(pointers),
                        parts_[2].in(pointers));
    for (int i = 0; i < 3; ++i)
      if (gradients_[i].is_bound())
        add_parts(stream, parts_[i].in(pointers), shape_.rows, shape_.columns, gradients_[i].accumulates,
                  gradients_[i].in(pointers));
  }

  const ValueMatrix shape_;
  const uint32_t phase_;
  const op::Operand weight_, sum_, mean_, inverse_, sum_gradient_, normed_gradient_, total_;
  const op::Operand residual_gradient_, branch_gradient_;
  op::Operand gradients_[3], parts_[3];  // of p0, p1 and p2
};

op::SlotList describe(const tsr_op& op) {
  op::check_segment_dtypes(op);
  const ValueMatrix shape = shape_of(op);
  check_norm(shape);
  op::SlotList slots = op::add_layer_norm_slots(op);
  if (op.phase == TSR_PHASE_FORWARD) return slots;
  slots.push_back(op::context(op.phase, kTotal, shape.rows * shape.columns, op.dtype));
  if (op::has_weight_half(op.phase))
    for (uint32_t i = 0; i < 3; ++i)
      slots.push_back(op::workspace(kParts + i, num_parts(shape.rows) * shape.columns));
  return slots;
}

}  // namespace

const OpFamily kAddLayerNorm{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
