// o0[N,out] = act(i0[N,in] p0[in,out] + p1[out]). With an activation, s0 keeps its argument z, and the input half of
// the backward leaves two contexts to the weight half: z's gradient, and of a bias the parts of its gradient.
//
// A product has the fused form that the library offers for these extents on this GPU, found in prepare, and an
// unfused one beside it for what that does not take. Gradients of weights are added by the product's beta, in float32,
// so micro-batches cost no pass of their own. What is fused and what is not, with the reasons, is in
// docs/decisions/0017.
#include "cuda-device/context.h"
#include "cuda-device/kernels/column_parts.h"
#include "cuda-device/kernels/linear/activation.h"
#include "cuda-device/kernels/matmul.h"
#include "cuda-device/kernels/op_table.h"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

// Workspaces. The first two are contexts between the halves of a backward.
constexpr uint32_t kZGradient = 0, kBiasParts = 1;
constexpr uint32_t kMatmulWorkspace = 2;
constexpr uint32_t kLeftOut = 0;  // of a forward

struct Shape {
  explicit Shape(const tsr_op& op)
      : rows(op::num_rows(op)),
        in(op::extent(op, TSR_DIM_IN)),
        out(op::extent(op, TSR_DIM_OUT)),
        dtype(op.dtype),
        activation(op::activation_of(op)),
        has_bias(op.attributes[TSR_ATTR_HAS_BIAS] != 0.0) {}

  uint64_t rows, in, out;
  tsr_dtype dtype;
  Activation activation;
  bool has_bias;

  /// In 16 bits: the library does not promise more of its tanh than they show. Its z has a stride of a multiple of 8.
  bool may_fuse_gelu() const { return activation == Activation::kGelu && dtype != TSR_F32 && out % 8 == 0; }

  ValueMatrix output() const { return {dtype, rows, out}; }

  Product forward() const {
    return {.m = rows, .n = out, .k = in, .a = {in}, .b = {out}, .out_stride = out, .dtype = dtype, .out_dtype = dtype};
  }
  Product input_gradient() const {
    return {.m = rows,
            .n = in,
            .k = out,
            .a = {out},
            .b = {out, true},
            .out_stride = in,
            .dtype = dtype,
            .out_dtype = dtype};
  }
  Product weight_gradient() const {
    return {.m = in,
            .n = out,
            .k = rows,
            .a = {in, true},
            .b = {out},
            .out_stride = out,
            .dtype = dtype,
            .out_dtype = TSR_F32};
  }
};

Product with(Product product, Epilogue epilogue) {
  product.epilogue = epilogue;
  return product;
}
/// A GELU is fused to the product wherever the library can do it: then z and gelu(z) come from one pass. Of the two
/// results one may be left out, in an evaluation or when a forward is run again; it is made all the same, in a
/// workspace, since another epilogue would be another algorithm and give o0 or s0 other bits. Where an activation is
/// not fused, it is of the z that is stored.
class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : shape_(op),
        gelu_(find_gelu(shape_, context)),
        bias_(shape_.has_bias ? MatmulPlan::find(with(shape_.forward(), Epilogue::kBias), kBufferAlignment, context)
                              : std::nullopt),
        product_(shape_.forward(), context),
        weight_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        bias_operand_(op::find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        saved_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        left_out_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kLeftOut)),
        workspace_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kMatmulWorkspace)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    void* const output = output_.in<void>(pointers);
    void* const saved = saved_.in<void>(pointers);
    if (!output && !saved) return;
    ProductOperands product{.a = input_.in<void>(pointers),
                            .b = weight_.in<void>(pointers),
                            .out = output ? output : left_out_.in<void>(pointers),
                            .workspace = workspace_.in<void>(pointers),
                            .bias = bias_operand_.in<void>(pointers),
                            .aux = saved ? saved : left_out_.in<void>(pointers)};
    if (gelu_ && gelu_->takes(product)) return gelu_->launch(stream, product);
    product.out = saved ? saved : output;
    product.aux = nullptr;
    multiply(stream, product);
    if (output && shape_.activation != Activation::kNone)
      activate(stream, shape_.activation, shape_.output(), product.out, output);
  }

 private:
  // Before Hopper the library's fused GELU is slower than two passes (llm.c, pull request 653).
  static std::optional<MatmulPlan> find_gelu(const Shape& shape, Context& context) {
    if (!shape.may_fuse_gelu() || context.compute_capability() < 90) return std::nullopt;
    return MatmulPlan::find(with(shape.forward(), shape.has_bias ? Epilogue::kGeluBias : Epilogue::kGelu),
                            kBufferAlignment, context);
  }

  void multiply(cudaStream_t stream, ProductOperands product) const {
    if (bias_ && bias_->takes(product)) return bias_->launch(stream, product);
    if (shape_.has_bias) fill_rows(stream, shape_.output(), product.bias, product.out);
    product.bias = nullptr;
    product.accumulates = shape_.has_bias;
    product_.launch(stream, product);
  }

  const Shape shape_;
  const std::optional<MatmulPlan> gelu_, bias_;
  const Matmul product_;  // added to rows that hold the bias
  const op::Operand weight_, bias_operand_, input_, output_, saved_, left_out_, workspace_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : shape_(op),
        phase_(op.phase),
        weight_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        saved_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        output_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        input_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        weight_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        bias_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 1)),
        z_gradient_(op::find_context(op, slots, kZGradient)),
        parts_(is_linear() ? op::find_operand(slots, TSR_ROLE_WORKSPACE, kBiasParts)
                           : op::find_context(op, slots, kBiasParts)),
        workspace_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kMatmulWorkspace)) {
    if (input_gradient_.is_bound()) input_product_.emplace(shape_.input_gradient(), context);
    if (!weight_gradient_.is_bound()) return;
    weight_product_.emplace(shape_.weight_gradient(), context);
    if (is_linear() && bias_gradient_.is_bound() && !bias_gradient_.accumulates)
      both_gradients_ =
          MatmulPlan::find(with(shape_.weight_gradient(), Epilogue::kBiasGradient), kBufferAlignment, context);
  }

  void launch(cudaStream_t stream, void* const* pointers) override {
    if (op::has_input_half(phase_)) launch_input_half(stream, pointers);
    if (op::has_weight_half(phase_)) launch_weight_half(stream, pointers);
  }

 private:
  bool is_linear() const { return shape_.activation == Activation::kNone; }

  const void* dz(void* const* pointers) const {
    return is_linear() ? output_gradient_.in<void>(pointers) : z_gradient_.in<void>(pointers);
  }

  void launch_input_half(cudaStream_t stream, void* const* pointers) const {
    if (!is_linear())
      differentiate_activation(stream, shape_.activation, shape_.output(), saved_.in<void>(pointers),
                               output_gradient_.in<void>(pointers), z_gradient_.in<void>(pointers),
                               parts_.in(pointers));
    if (input_product_)
      input_product_->launch(stream, {.a = dz(pointers),
                                      .b = weight_.in<void>(pointers),
                                      .out = input_gradient_.in<void>(pointers),
                                      .workspace = workspace_.in<void>(pointers),
                                      .accumulates = input_gradient_.accumulates});
  }

  void launch_weight_half(cudaStream_t stream, void* const* pointers) const {
    ProductOperands product{.a = input_.in<void>(pointers),
                            .b = dz(pointers),
                            .out = weight_gradient_.in<void>(pointers),
                            .workspace = workspace_.in<void>(pointers),
                            .accumulates = weight_gradient_.accumulates,
                            .bias = bias_gradient_.in<void>(pointers)};
    if (both_gradients_ && both_gradients_->takes(product)) return both_gradients_->launch(stream, product);
    product.bias = nullptr;
    if (weight_product_) weight_product_->launch(stream, product);
    if (bias_gradient_.is_bound()) launch_bias_gradient(stream, pointers);
  }

  void launch_bias_gradient(cudaStream_t stream, void* const* pointers) const {
    float* const parts = parts_.in(pointers);
    if (is_linear())
      differentiate_activation(stream, Activation::kNone, shape_.output(), nullptr, dz(pointers), nullptr, parts);
    add_parts(stream, parts, num_parts(shape_.rows), shape_.out,
              {{bias_gradient_.in(pointers), bias_gradient_.accumulates}});
  }

  const Shape shape_;
  const uint32_t phase_;
  const op::Operand weight_, input_, saved_, output_gradient_, input_gradient_, weight_gradient_, bias_gradient_;
  const op::Operand z_gradient_, parts_, workspace_;
  std::optional<Matmul> input_product_, weight_product_;
  std::optional<MatmulPlan> both_gradients_;  // of weight and bias, where both are written and the library can
};

op::SlotList describe_forward(const tsr_op& op) {
  const Shape shape(op);
  op::SlotList slots = op::segment_slots(op);
  if (shape.may_fuse_gelu()) slots.push_back(op::workspace(kLeftOut, shape.rows * shape.out, shape.dtype));
  slots.push_back(matmul_workspace(kMatmulWorkspace));
  return slots;
}

op::SlotList describe_backward(const tsr_op& op) {
  const Shape shape(op);
  op::SlotList slots = op::segment_slots(op);
  const uint64_t num_part_elements = num_parts(shape.rows) * shape.out;
  if (shape.activation != Activation::kNone) {
    slots.push_back(op::context(op.phase, kZGradient, shape.rows * shape.out, shape.dtype));
    if (shape.has_bias) slots.push_back(op::context(op.phase, kBiasParts, num_part_elements));
  } else if (shape.has_bias && op::has_weight_half(op.phase)) {
    slots.push_back(op::workspace(kBiasParts, num_part_elements));
  }
  slots.push_back(matmul_workspace(kMatmulWorkspace));
  return slots;
}

op::SlotList describe(const tsr_op& op) {
  return op.phase == TSR_PHASE_FORWARD ? describe_forward(op) : describe_backward(op);
}

}  // namespace

const OpImpl kLinear{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
