// o0 = i0 + i1 + p0: the residual connection at the end of a block. The gradient of i1 is the buffer of o0's; that of
// i0 is added to, or is a copy. One kernel reads do0 once for both di0 and the parts of g0.
#include "cuda-device/kernels/column_parts.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/row_sums.h"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

class Forward final : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(embed_rows(op)),
        bias_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        residual_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        branch_(op::find_operand(slots, TSR_ROLE_INPUT, 1)),
        sum_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    add_rows(stream, shape_, residual_.in<void>(pointers), branch_.in<void>(pointers), bias_.in<void>(pointers), 0, 1,
             sum_.in<void>(pointers));
  }

 private:
  const ValueMatrix shape_;
  const op::Operand bias_, residual_, branch_, sum_;
};

class Backward final : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(embed_rows(op)),
        output_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        input_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        bias_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        parts_(op::find_operand(slots, TSR_ROLE_WORKSPACE, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    const void* const dy = output_gradient_.in<void>(pointers);
    add_or_copy_and_sum(stream, shape_, dy, input_gradient_.accumulates, input_gradient_.in<void>(pointers),
                        bias_gradient_.is_bound() ? parts_.in(pointers) : nullptr);
    if (!bias_gradient_.is_bound()) return;
    add_parts(stream, parts_.in(pointers), num_parts(shape_.rows), shape_.columns,
              {{bias_gradient_.in(pointers), bias_gradient_.accumulates}});
  }

 private:
  const ValueMatrix shape_;
  const op::Operand output_gradient_, input_gradient_, bias_gradient_, parts_;
};

op::SlotList describe(const tsr_op& op) {
  const ValueMatrix shape = embed_rows(op);
  op::SlotList slots = op::segment_slots(op);
  if (op::has_weight_half(op.phase)) slots.push_back(op::workspace(0, num_parts(shape.rows) * shape.columns));
  return slots;
}

}  // namespace

const OpImpl kAdd{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
