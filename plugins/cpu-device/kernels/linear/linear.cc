// o0[N,out] = act(i0[N,in] p0[in,out] + p1[out]). With an activation, s0 keeps its argument z, and the input half of
// the backward leaves z's gradient to the weight half.
//
// Three products of 2 N in out operations: z = i p; dx = dz p^T; dp = i^T dz. They take most of a step. Micro-batches
// are summed by the weight's product itself (beta = 1), in float32, in their order: so gradients accumulate without a
// pass of their own, and one large batch differs from several small ones only by the product's own rounding.
#include "cpu-device/kernels/linear/activation.h"
#include "cpu-device/kernels/linear/linear_shape.h"
#include "cpu-device/kernels/matmul.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

using op::Activation;

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        weight_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        bias_(find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        saved_(find_operand(slots, TSR_ROLE_SAVED, 0)) {}

  void run(void* const* pointers) override {
    float* output = output_.in(pointers);
    float* z = saved_.is_bound() ? saved_.in(pointers) : output;
    if (!z) return;
    multiply(pointers, z);
    if (output && shape_.activation != Activation::kNone) activate(z, output);
  }

 private:
  // The library has no bias in this product, so the product is added to rows that hold it.
  void multiply(void* const* pointers, float* z) const {
    if (shape_.has_bias) {
      const auto fill = TESSERA_SIMD_CHOOSE(fill_rows);
      const float* bias = bias_.in(pointers);
      parallel_for(num_threads_, shape_.rows, row_grain(shape_.out), [&](uint64_t begin, uint64_t end, int) {
        fill(bias, end - begin, shape_.out, z + begin * shape_.out);
      });
    }
    matmul({shape_.rows, shape_.out, shape_.in}, {input_.in(pointers), shape_.in}, {weight_.in(pointers), shape_.out},
           {z, shape_.out}, shape_.has_bias, num_threads_);
  }

  void activate(const float* z, float* output) const {
    const auto f = shape_.activation == Activation::kGelu ? TESSERA_SIMD_CHOOSE(gelu) : TESSERA_SIMD_CHOOSE(relu);
    parallel_for(num_threads_, shape_.rows * shape_.out, kElementGrain,
                 [&](uint64_t begin, uint64_t end, int) { f(z + begin, end - begin, output + begin); });
  }

  const LinearShape shape_;
  const int num_threads_;
  const Operand weight_, bias_, input_, output_, saved_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        phase_(op.phase),
        num_threads_(num_threads),
        weight_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        saved_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        output_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        z_gradient_(find_context(op, slots, 0)),
        input_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        weight_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        bias_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 1)) {}

  void run(void* const* pointers) override {
    const bool is_linear = shape_.activation == Activation::kNone;
    const float* dz = is_linear ? output_gradient_.in(pointers) : z_gradient_.in(pointers);
    if (has_input_half(phase_)) {
      if (!is_linear) differentiate_activation(pointers);
      run_input_half(pointers, dz);
    }
    if (has_weight_half(phase_)) run_weight_half(pointers, dz);
  }

 private:
  void differentiate_activation(void* const* pointers) const {
    const auto f = shape_.activation == Activation::kGelu ? TESSERA_SIMD_CHOOSE(gelu_backward)
                                                          : TESSERA_SIMD_CHOOSE(relu_backward);
    const float* z = saved_.in(pointers);
    const float* dy = output_gradient_.in(pointers);
    float* dz = z_gradient_.in(pointers);
    parallel_for(num_threads_, shape_.rows * shape_.out, kElementGrain,
                 [&](uint64_t begin, uint64_t end, int) { f(z + begin, dy + begin, end - begin, dz + begin); });
  }

  void run_input_half(void* const* pointers, const float* dz) const {
    if (!input_gradient_.is_bound()) return;
    matmul({shape_.rows, shape_.in, shape_.out}, {dz, shape_.out}, {weight_.in(pointers), shape_.out, true},
           {input_gradient_.in(pointers), shape_.in}, input_gradient_.accumulates, num_threads_);
  }

  // Needs only dz from the input half: a schedule may run it much later (zero-bubble pipelines).
  void run_weight_half(void* const* pointers, const float* dz) const {
    if (weight_gradient_.is_bound())
      matmul({shape_.in, shape_.out, shape_.rows}, {input_.in(pointers), shape_.in, true}, {dz, shape_.out},
             {weight_gradient_.in(pointers), shape_.out}, weight_gradient_.accumulates, num_threads_);
    if (bias_gradient_.is_bound())
      sum_columns(dz, shape_.rows, shape_.out, bias_gradient_.accumulates, bias_gradient_.in(pointers), num_threads_);
  }

  const LinearShape shape_;
  const uint32_t phase_;
  const int num_threads_;
  const Operand weight_, input_, saved_, output_gradient_, z_gradient_;
  const Operand input_gradient_, weight_gradient_, bias_gradient_;
};

SlotList describe(const tsr_op& op) {
  const LinearShape shape(op);
  SlotList slots = op::segment_slots(op);
  if (op.phase != TSR_PHASE_FORWARD && shape.activation != Activation::kNone)
    slots.push_back(op::context(op.phase, 0, shape.rows * shape.out));
  return slots;
}

}  // namespace

const OpImpl kLinear{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
