// Linear layers, on every device: every activation, with and without bias.
#include "support/device_under_test.h"
#include "support/expect_error.h"
#include "support/op_cases.h"

namespace tessera::testing {
namespace {

class LinearOp : public DeviceOpTestOf<LinearExtents> {};

TEST_P(LinearOp, ForwardIsTheReference) {
  const OpCase c = linear_case(extents());
  check_forward(device(), c.op, c.operands);
}
TEST_P(LinearOp, BackwardIsTheReference) {
  const OpCase c = linear_case(extents());
  check_backward(device(), c.op, c.operands);
}

constexpr int kNone = TSR_ACTIVATION_NONE, kGelu = TSR_ACTIVATION_GELU_TANH, kRelu = TSR_ACTIVATION_RELU;

TESSERA_EVERY_DEVICE_ON(LinearOp, LinearExtents, LinearExtents{1, 1, 1, 1, kNone, true},
                        LinearExtents{2, 5, 7, 33, kNone, true}, LinearExtents{1, 33, 48, 7, kNone, false},
                        LinearExtents{2, 16, 33, 101, kGelu, true}, LinearExtents{1, 5, 48, 192, kGelu, false},
                        LinearExtents{3, 7, 20, 31, kRelu, true}, LinearExtents{1, 64, 192, 48, kRelu, false});

class LargeLinearOp : public DeviceOpTestOf<LinearExtents> {};

// Sums over the width are longer than in the extents above; so is the tolerance of float32. The backward also has the
// error of z, which is 1e-5 where a processor's vectors are short (AVX2).
TEST_P(LargeLinearOp, IsTheReference) {
  const OpCase c = linear_case(extents());
  check_forward(device(), c.op, c.operands, {4e-6}, Checks::kFew);
  check_backward(device(), c.op, c.operands, {2e-5}, Checks::kFew);
}

// qkv and the MLP of GPT-2 124M.
TESSERA_EVERY_DEVICE_ON(LargeLinearOp, LinearExtents, LinearExtents{1, 40, 768, 2304, kNone, true},
                        LinearExtents{1, 24, 768, 3072, kGelu, true}, LinearExtents{1, 24, 3072, 768, kNone, false});

class LinearOps : public DeviceOpTest {};

TEST_P(LinearOps, RefuseWhatTheyCannotCompute) {
  const auto refuse = [this](const tsr_op& wrong, const std::vector<std::string>& texts) {
    expect_error([&] { runner().describe(wrong); }, texts);
  };
  refuse(linear_case({1, 4, 3, 5, 7, false}).op, {"activation 7"});
  refuse(linear_case({1, 4, 0, 5, kNone, false}).op, {"extent 0 in dim in;"});
  tsr_op op = linear_case({1, 4, 3, 5, kNone, false}).op;
  op.dtype = TSR_F64;
  refuse(op, {"float64", "float32, bfloat16 and float16"});
  op.dtype = TSR_BF16;
  op.phase = TSR_PHASE_BACKWARD;
  op.gradient_dtype = TSR_BF16;
  refuse(op, {"gradients of parameters in bfloat16", "float32"});
}

TESSERA_EVERY_DEVICE(LinearOps);

}  // namespace
}  // namespace tessera::testing
