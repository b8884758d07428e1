// o0 = i0 + i1 + p0; o1 = norm(o0) * p1 + p2; s0 mean, s1 1 / std of o0's rows. Both inputs have the gradient
// total = do0 + (gradient of o0 through the norm); the input half leaves it to the weight half.
//
// One op and not add then layer_norm, since the row that was just added is still in the cache when it is normed. The
// norm itself is layer_norm.cc's, so both have the same bits.
#include "cpu-device/kernels/norm/norm.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(norm_shape(op)),
        epsilon_(static_cast<float>(op.attributes[TSR_ATTR_EPSILON])),
        num_threads_(num_threads),
        bias_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        norm_weight_(find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        norm_bias_(find_operand(slots, TSR_ROLE_PARAMETER, 2)),
        residual_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        branch_(find_operand(slots, TSR_ROLE_INPUT, 1)),
        sum_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        normed_(find_operand(slots, TSR_ROLE_OUTPUT, 1)),
        mean_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_deviation_(find_operand(slots, TSR_ROLE_SAVED, 1)) {}

  void run(void* const* pointers) override {
    const auto add_bias = TESSERA_SIMD_CHOOSE(add_bias);
    float* sum = sum_.in(pointers);
    parallel_for(num_threads_, shape_.rows, row_grain(shape_.columns), [&](uint64_t begin, uint64_t end, int) {
      const uint64_t offset = begin * shape_.columns;
      add_bias(residual_.in(pointers) + offset, branch_.in(pointers) + offset, bias_.in(pointers), end - begin,
               shape_.columns, sum + offset);
    });
    norm_forward(shape_, sum, norm_weight_.in(pointers), norm_bias_.in(pointers), epsilon_, normed_.in(pointers),
                 mean_.in(pointers), inverse_deviation_.in(pointers), num_threads_);
  }

 private:
  const NormShape shape_;
  const float epsilon_;
  const int num_threads_;
  const Operand bias_, norm_weight_, norm_bias_, residual_, branch_, sum_, normed_, mean_, inverse_deviation_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(norm_shape(op)),
        phase_(op.phase),
        num_threads_(num_threads),
        norm_weight_(find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        sum_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        mean_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_deviation_(find_operand(slots, TSR_ROLE_SAVED, 1)),
        sum_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        normed_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 1)),
        total_(find_context(op, slots, 0)),
        residual_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        branch_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 1)),
        bias_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        norm_weight_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 1)),
        norm_bias_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 2)) {}

  void run(void* const* pointers) override {
    const NormForBackward kept{sum_.in(pointers), mean_.in(pointers), inverse_deviation_.in(pointers)};
    if (has_input_half(phase_)) run_input_half(pointers, kept);
    if (has_weight_half(phase_)) run_weight_half(pointers, kept);
  }

 private:
  // total is made even if neither input's gradient is wanted: the weight half sums it for g0.
  void run_input_half(void* const* pointers, const NormForBackward& kept) const {
    float* total = total_.in(pointers);
    norm_backward_input(shape_, kept, norm_weight_.in(pointers), normed_gradient_.in(pointers),
                        sum_gradient_.in(pointers), total, num_threads_);
    for (const Operand& gradient : {residual_gradient_, branch_gradient_})
      if (float* dx = gradient.in(pointers))
        add_or_copy(total, shape_.rows * shape_.columns, gradient.accumulates, dx, num_threads_);
  }

  void run_weight_half(void* const* pointers, const NormForBackward& kept) const {
    const float* normed_gradient = normed_gradient_.in(pointers);
    if (float* dbias = bias_gradient_.in(pointers))
      sum_columns(total_.in(pointers), shape_.rows, shape_.columns, bias_gradient_.accumulates, dbias, num_threads_);
    if (float* dweight = norm_weight_gradient_.in(pointers))
      norm_backward_weight(shape_, kept, normed_gradient, norm_weight_gradient_.accumulates, dweight, num_threads_);
    if (float* dbias = norm_bias_gradient_.in(pointers))
      sum_columns(normed_gradient, shape_.rows, shape_.columns, norm_bias_gradient_.accumulates, dbias, num_threads_);
  }

  const NormShape shape_;
  const uint32_t phase_;
  const int num_threads_;
  const Operand norm_weight_, sum_, mean_, inverse_deviation_, sum_gradient_, normed_gradient_, total_;
  const Operand residual_gradient_, branch_gradient_, bias_gradient_, norm_weight_gradient_, norm_bias_gradient_;
};

SlotList describe(const tsr_op& op) {
  SlotList slots = op::segment_slots(op);
  const auto [rows, columns] = norm_shape(op);
  if (op.phase != TSR_PHASE_FORWARD) slots.push_back(op::context(op.phase, 0, rows * columns));
  return slots;
}

}  // namespace

const OpImpl kAddLayerNorm{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
