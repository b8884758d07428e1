// o0 = norm(i0) * p0 + p1; s0 mean, s1 1 / std of each row (Ba, Kiros, Hinton 2016). Input half: threads share rows.
// Weight half: threads share columns, so each sum over rows is one thread's, in the order of the rows.
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
        weight_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        bias_(find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        mean_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_deviation_(find_operand(slots, TSR_ROLE_SAVED, 1)) {}

  void run(void* const* pointers) override {
    norm_forward(shape_, input_.in(pointers), weight_.in(pointers), bias_.in(pointers), epsilon_, output_.in(pointers),
                 mean_.in(pointers), inverse_deviation_.in(pointers), num_threads_);
  }

 private:
  const NormShape shape_;
  const float epsilon_;
  const int num_threads_;
  const Operand weight_, bias_, input_, output_, mean_, inverse_deviation_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(norm_shape(op)),
        num_threads_(num_threads),
        weight_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        mean_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        inverse_deviation_(find_operand(slots, TSR_ROLE_SAVED, 1)),
        output_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        input_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        weight_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        bias_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 1)) {}

  // An operand of the half that the phase leaves out is not bound.
  void run(void* const* pointers) override {
    const NormForBackward kept{input_.in(pointers), mean_.in(pointers), inverse_deviation_.in(pointers)};
    const float* dy = output_gradient_.in(pointers);
    if (float* dx = input_gradient_.in(pointers))
      norm_backward_input(shape_, kept, weight_.in(pointers), dy, input_gradient_.accumulates ? dx : nullptr, dx,
                          num_threads_);
    if (float* dweight = weight_gradient_.in(pointers))
      norm_backward_weight(shape_, kept, dy, weight_gradient_.accumulates, dweight, num_threads_);
    if (float* dbias = bias_gradient_.in(pointers))
      sum_columns(dy, shape_.rows, shape_.columns, bias_gradient_.accumulates, dbias, num_threads_);
  }

 private:
  const NormShape shape_;
  const int num_threads_;
  const Operand weight_, input_, mean_, inverse_deviation_, output_gradient_;
  const Operand input_gradient_, weight_gradient_, bias_gradient_;
};

}  // namespace

const OpImpl kLayerNorm{op::segment_slots, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
