// o0 = norm(i0) * p0 + p1; s0 mean, s1 1 / std of each row. The kernels are norm.cu's, which the op with a residual sum
// shares. Backward makes di0 and the parts of g0 and g1 in one pass over i0 and do0.
#include "cuda-device/kernels/column_parts.h"
#include "cuda-device/kernels/norm/norm.h"
#include "cuda-device/kernels/op_table.h"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr uint32_t kParts = 0;    // workspace
constexpr uint32_t kNumSums = 2;  // of p0's and p1's gradient

class Forward final : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(embed_rows(op)),
        epsilon_(static_cast<float>(op.attributes[TSR_ATTR_EPSILON])),
        weight_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        bias_(op::find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        mean_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_(op::find_operand(slots, TSR_ROLE_SAVED, 1)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    norm_forward(stream, shape_, epsilon_,
                 {.x = input_.in<void>(pointers),
                  .weight = weight_.in<void>(pointers),
                  .bias = bias_.in<void>(pointers),
                  .y = output_.in<void>(pointers),
                  .mean = mean_.in(pointers),
                  .inverse = inverse_.in(pointers)});
  }

 private:
  const ValueMatrix shape_;
  const float epsilon_;
  const op::Operand weight_, bias_, input_, output_, mean_, inverse_;
};

class Backward final : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(embed_rows(op)),
        weight_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        mean_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_(op::find_operand(slots, TSR_ROLE_SAVED, 1)),
        output_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        input_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        weight_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        bias_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 1)),
        parts_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kParts)) {}

  // An operand of the half that the phase leaves out is not bound: without di0 no weight is read and nothing is written
  // except the parts; without g0 and g1 no parts are computed.
  void launch(cudaStream_t stream, void* const* pointers) override {
    const bool has_weight_half = weight_gradient_.is_bound() || bias_gradient_.is_bound();
    if (!input_gradient_.is_bound() && !has_weight_half) return;
    void* const dx = input_gradient_.in<void>(pointers);
    norm_backward(stream, shape_, kNumSums,
                  {.x = input_.in<void>(pointers),
                   .mean = mean_.in(pointers),
                   .inverse = inverse_.in(pointers),
                   .weight = dx ? weight_.in<void>(pointers) : nullptr,
                   .dy = output_gradient_.in<void>(pointers),
                   .base = input_gradient_.accumulates ? dx : nullptr,
                   .total = dx,
                   .parts = has_weight_half ? parts_.in(pointers) : nullptr});
    if (has_weight_half)
      add_parts(stream, parts_.in(pointers), num_norm_parts(shape_.rows), shape_.columns,
                {{weight_gradient_.in(pointers), weight_gradient_.accumulates},
                 {bias_gradient_.in(pointers), bias_gradient_.accumulates}});
  }

 private:
  const ValueMatrix shape_;
  const op::Operand weight_, input_, mean_, inverse_, output_gradient_;
  const op::Operand input_gradient_, weight_gradient_, bias_gradient_, parts_;
};

op::SlotList describe(const tsr_op& op) {
  const ValueMatrix shape = embed_rows(op);
  check_norm(shape);
  op::SlotList slots = op::segment_slots(op);
  if (op::has_weight_half(op.phase))
    slots.push_back(op::workspace(kParts, kNumSums * num_norm_parts(shape.rows) * shape.columns));
  return slots;
}

}  // namespace

const OpImpl kLayerNorm{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
