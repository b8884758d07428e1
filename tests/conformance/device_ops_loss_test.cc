// Softmax cross-entropy, on every device.
#include <cmath>

#include "support/device_under_test.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "support/reference_kernels.h"
#include "tessera/accumulator.hpp"

namespace tessera::testing {
namespace {

constexpr RunOptions kWrite{.gradient_mode = TSR_MODE_WRITE};

double loss_of(const Operands& results) {
  return decode(ConstAccumulatorView(results.loss.data(), TSR_ACCUMULATOR_LIMBS));
}

class LossOp : public DeviceOpTestOf<LossExtents> {
 protected:
  static double reference_of(const OpCase& c) {
    Tensors tensors;
    for (const auto& [slot, values] : c.operands.floats)
      tensors[slot].assign(values.begin(), values.end());
    return reference_forward(c.op, tensors, c.operands.tokens).begin()->second[0];
  }
  // Of a sum of losses: a GPU rounds 16-bit logits.
  double relative_tolerance(tsr_dtype dtype) const { return runner().is_cuda() ? 5e-6 + 2 * roundoff(dtype) : 1e-6; }
};

TEST_P(LossOp, GradientsAreTheReference) {
  const OpCase c = loss_case(extents());
  check_backward(device(), c.op, c.operands);
}

TEST_P(LossOp, BothPhasesAddTheLoss) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16}) {
    OpCase c = loss_case(extents());
    c.op.dtype = dtype;
    for (auto& [slot, values] : c.operands.floats)
      for (float& value : values)
        value = rounded(dtype, value);
    const double expected = reference_of(c), tolerance = relative_tolerance(dtype) * expected;
    for (const uint32_t phase : {TSR_PHASE_BACKWARD, TSR_PHASE_FORWARD}) {
      c.op.phase = phase;
      c.operands.loss.clear();
      const Operands once = run(runner(), c.op, c.operands, kWrite);
      EXPECT_NEAR(loss_of(once), expected, tolerance) << op_text(c.op);
      EXPECT_EQ(run(runner(), c.op, c.operands, kWrite).loss, once.loss) << op_text(c.op);
      c.operands.loss = once.loss;
      EXPECT_NEAR(loss_of(run(runner(), c.op, c.operands, kWrite)), 2 * expected, 2 * tolerance) << op_text(c.op);
    }
  }
}

// Gradients in which nothing over- or underflows.
TEST_P(LossOp, APowerOfTwoAsItsScaleOnlyScalesTheGradients) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16}) {
    OpCase c = loss_case(extents());
    c.op.dtype = dtype;
    const Operands plain = run(runner(), c.op, c.operands, kWrite);
    c.operands.loss_scale = 1;
    const Operands unscaled = run(runner(), c.op, c.operands, kWrite);
    c.operands.loss_scale = 65536;
    const Operands scaled = run(runner(), c.op, c.operands, kWrite);
    EXPECT_EQ(scaled.loss, plain.loss) << op_text(c.op);
    for (const uint32_t slot : {g(0), din(0)}) {
      EXPECT_EQ(unscaled.floats.at(slot), plain.floats.at(slot)) << op_text(c.op);
      for (size_t i = 0; i < plain.floats.at(slot).size(); ++i)
        ASSERT_EQ(scaled.floats.at(slot)[i], 65536 * plain.floats.at(slot)[i]) << op_text(c.op) << " " << i;
    }
  }
}

TESSERA_EVERY_DEVICE_ON(LossOp, LossExtents, LossExtents{1, 1, 7, 96}, LossExtents{2, 5, 48, 101},
                        LossExtents{1, 33, 33, 96}, LossExtents{2, 16, 7, 2000}, LossExtents{1, 70, 40, 257});

class LargeLossOp : public DeviceOpTestOf<LossExtents> {};

TEST_P(LargeLossOp, GradientsAreTheReference) {
  const OpCase c = loss_case(extents());
  check_backward(device(), c.op, c.operands, {2e-5}, Checks::kFew);
}

// GPT-2's vocabulary, and its width.
TESSERA_EVERY_DEVICE_ON(LargeLossOp, LossExtents, LossExtents{1, 5, 24, 50257}, LossExtents{1, 3, 768, 5003});

class LossOps : public DeviceOpTest {};

TEST_P(LossOps, AScaleKeepsGradientsThatFloat16WouldFlushToZero) {
  OpCase c = loss_case({1, 4, 3, 5});
  c.op.dtype = TSR_F16;
  c.op.attributes[TSR_ATTR_SCALE] = 1e-9;
  EXPECT_EQ(run(runner(), c.op, c.operands, kWrite).floats.at(din(0)), std::vector<float>(12, 0.0f));
  c.operands.loss_scale = 65536;
  const Operands results = run(runner(), c.op, c.operands, kWrite);
  for (const float value : results.floats.at(din(0)))
    EXPECT_NE(value, 0.0f);
}

TEST_P(LossOps, CountWhatIsNotFinite) {
  OpCase c = loss_case({1, 4, 3, 5});
  c.op.phase = TSR_PHASE_FORWARD;
  c.operands.floats[in(0)][4] = NAN;
  const Operands results = run(runner(), c.op, c.operands);
  EXPECT_EQ(results.loss[0], 1);
  EXPECT_TRUE(std::isnan(loss_of(results)));
}

TEST_P(LossOps, RefuseTargetsOutsideOfTheVocabulary) {
  for (const uint32_t phase : {TSR_PHASE_FORWARD, TSR_PHASE_BACKWARD}) {
    OpCase c = loss_case({1, 4, 3, 5});
    c.op.phase = phase;
    c.operands.tokens[in(1)][2] = 5;
    expect_error([&] { run(runner(), c.op, c.operands, kWrite); }, {"target 5 at position 2", "[0, 5)"});
  }
}

TEST_P(LossOps, HaveNoHalves) {
  tsr_op op = loss_case({1, 4, 3, 5}).op;
  op.phase = TSR_PHASE_BACKWARD_INPUT;
  expect_error([&] { runner().describe(op); }, {"phase backward_input"});
}

TESSERA_EVERY_DEVICE(LossOps);

}  // namespace
}  // namespace tessera::testing
