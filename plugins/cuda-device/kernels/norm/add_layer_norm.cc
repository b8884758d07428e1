// o0 = i0 + i1 + p0; o1 = norm(o0) * p1 + p2; s0 mean, s1 1 / std of o0's rows. Both inputs have the gradient
// total = do0 + (gradient of o0 through the norm); an input half leaves it to the weight half. The sum and the norm are
// one kernel, forward and backward (norm.cu): a row is read once and stays in registers between them.
#include "cuda-device/kernels/column_parts.h"
#include "cuda-device/kernels/norm/norm.h"
#include "cuda-device/kernels/op_table.h"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr uint32_t kTotal = 0;    // context between the halves
constexpr uint32_t kParts = 1;    // workspace
constexpr uint32_t kNumSums = 3;  // of p1's, p2's and p0's gradient

class Forward final : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(embed_rows(op)),
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
      : shape_(embed_rows(op)),
        weight_(op::find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        sum_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        mean_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_(op::find_operand(slots, TSR_ROLE_SAVED, 1)),
        sum_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        normed_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 1)),
        total_(op::find_operand(slots, TSR_ROLE_CONTEXT, kTotal)),
        residual_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        branch_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 1)),
        parts_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kParts)) {
    for (uint32_t i = 0; i < kNumSums; ++i)
      gradients_[i] = op::find_operand(slots, TSR_ROLE_GRADIENT, i);
  }

  // One kernel for all phases; what is bound decides. BACKWARD: total goes to the targets and, in the same pass, into
  // the sums. Input half: total is kept as the context. Weight half: no weight is bound, total is the context, read as
  // base.
  void launch(cudaStream_t stream, void* const* pointers) override {
    const bool is_weight_half = !weight_.is_bound();
    norm_backward(stream, shape_, kNumSums,
                  {.x = sum_.in<void>(pointers),
                   .mean = mean_.in(pointers),
                   .inverse = inverse_.in(pointers),
                   .weight = weight_.in<void>(pointers),
                   .dy = normed_gradient_.in<void>(pointers),
                   .base = (is_weight_half ? total_ : sum_gradient_).in<void>(pointers),
                   .total = total_.in<void>(pointers),
                   .targets = {target(residual_gradient_, pointers), target(branch_gradient_, pointers)},
                   .parts = parts_.in(pointers)});
    if (parts_.is_bound())
      add_parts(stream, parts_.in(pointers), num_norm_parts(shape_.rows), shape_.columns,
                {sum(1, pointers), sum(2, pointers), sum(0, pointers)});
  }

 private:
  static GradientTarget target(const op::Operand& gradient, void* const* pointers) {
    return {gradient.in<void>(pointers), gradient.accumulates};
  }
  ColumnSum sum(int parameter, void* const* pointers) const {
    const op::Operand& gradient = gradients_[parameter];
    return {gradient.in(pointers), gradient.accumulates};
  }

  const ValueMatrix shape_;
  const op::Operand weight_, sum_, mean_, inverse_, sum_gradient_, normed_gradient_, total_;
  const op::Operand residual_gradient_, branch_gradient_, parts_;
  op::Operand gradients_[kNumSums];  // of p0, p1 and p2
};

op::SlotList describe(const tsr_op& op) {
  const ValueMatrix shape = embed_rows(op);
  check_norm(shape);
  op::SlotList slots = op::segment_slots(op);
  if (op.phase == TSR_PHASE_FORWARD) return slots;
  if (op.phase != TSR_PHASE_BACKWARD)
    slots.push_back(op::context(op.phase, kTotal, shape.rows * shape.columns, op.dtype));
  if (op::has_weight_half(op.phase))
    slots.push_back(op::workspace(kParts, kNumSums * num_norm_parts(shape.rows) * shape.columns));
  return slots;
}

}  // namespace

const OpImpl kAddLayerNorm{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
