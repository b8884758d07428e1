// Softmax cross-entropy of logits with labels of classes, on every device.
#include <cmath>

#include "support/device_under_test.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "support/reference_kernels.h"
#include "tessera/accumulator.hpp"

namespace tessera::testing {
namespace {

constexpr RunOptions kWrite{.gradient_mode = TSR_MODE_WRITE};
constexpr uint32_t kLoss = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS);
constexpr uint32_t kCorrect = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT);
constexpr tsr_dtype kDtypes[] = {TSR_F32, TSR_BF16, TSR_F16};

double loss_of(const Operands& results) {
  return decode(ConstAccumulatorView(results.loss.data(), TSR_ACCUMULATOR_LIMBS));
}

Tensors reference_of(const OpCase& c) {
  Tensors tensors;
  for (const auto& [slot, values] : c.operands.floats)
    tensors[slot].assign(values.begin(), values.end());
  return reference_forward(c.op, tensors, c.operands.tokens);
}

OpCase rounded_case(const ClassExtents& extents, tsr_dtype dtype) {
  OpCase c = cross_entropy_case(extents);
  c.op.dtype = dtype;
  for (float& value : c.operands.floats[in(0)])
    value = rounded(dtype, value);
  return c;
}

class CrossEntropyOp : public DeviceOpTestOf<ClassExtents> {};

TEST_P(CrossEntropyOp, GradientsAreTheReference) {
  const OpCase c = cross_entropy_case(extents());
  check_backward(device(), c.op, c.operands);
}

TEST_P(CrossEntropyOp, BothPhasesAddTheLossAndCountWhatIsCorrect) {
  for (const tsr_dtype dtype : kDtypes) {
    OpCase c = rounded_case(extents(), dtype);
    Tensors expected = reference_of(c);
    const double loss = expected[kLoss][0], tolerance = 5e-6 * loss + 1e-6;
    const auto correct = static_cast<int64_t>(expected[kCorrect][0]);
    for (const uint32_t phase : {TSR_PHASE_BACKWARD, TSR_PHASE_FORWARD}) {
      c.op.phase = phase;
      c.operands.loss.clear();
      c.operands.correct = 0;
      const Operands once = run(runner(), c.op, c.operands, kWrite);
      EXPECT_NEAR(loss_of(once), loss, tolerance) << op_text(c.op);
      EXPECT_EQ(once.correct, correct) << op_text(c.op);
      c.operands.loss = once.loss;
      c.operands.correct = once.correct;
      const Operands twice = run(runner(), c.op, c.operands, kWrite);
      EXPECT_NEAR(loss_of(twice), 2 * loss, 2 * tolerance) << op_text(c.op);
      EXPECT_EQ(twice.correct, 2 * correct) << op_text(c.op);
    }
  }
}

TEST_P(CrossEntropyOp, TheCountMayBeLeftOut) {
  for (const uint32_t phase : {TSR_PHASE_BACKWARD, TSR_PHASE_FORWARD}) {
    OpCase c = cross_entropy_case(extents());
    c.op.phase = phase;
    RunOptions without = kWrite;
    without.left_out = {kCorrect};
    const Operands results = run(runner(), c.op, c.operands, without), all = run(runner(), c.op, c.operands, kWrite);
    EXPECT_EQ(results.loss, all.loss);
    EXPECT_EQ(results.floats, all.floats);
  }
}

TEST_P(CrossEntropyOp, APowerOfTwoAsItsScaleOnlyScalesTheGradient) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16}) {
    OpCase c = rounded_case(extents(), dtype);
    const Operands plain = run(runner(), c.op, c.operands, kWrite);
    c.operands.loss_scale = 65536;
    const Operands scaled = run(runner(), c.op, c.operands, kWrite);
    EXPECT_EQ(scaled.loss, plain.loss) << op_text(c.op);
    EXPECT_EQ(scaled.correct, plain.correct) << op_text(c.op);
    for (size_t i = 0; i < plain.floats.at(din(0)).size(); ++i)
      ASSERT_EQ(scaled.floats.at(din(0))[i], 65536 * plain.floats.at(din(0))[i]) << op_text(c.op) << " " << i;
  }
}

// Up to several blocks of rows, and classes up to several of a warp's passes.
TESSERA_EVERY_DEVICE_ON(CrossEntropyOp, ClassExtents, ClassExtents{1, 1, 1}, ClassExtents{1, 1, 2},
                        ClassExtents{7, 1, 10}, ClassExtents{500, 1, 10}, ClassExtents{3, 11, 33},
                        ClassExtents{5, 1, 1000});

class CrossEntropyOps : public DeviceOpTest {
 protected:
  /// How many of the rows, which have three logits each, are correct with `label`.
  int64_t count(const std::vector<float>& logits, int32_t label, tsr_dtype dtype = TSR_F32) {
    const auto num_rows = static_cast<int64_t>(logits.size() / 3);
    OpCase c = cross_entropy_case({num_rows, 1, 3});
    c.op.phase = TSR_PHASE_FORWARD;
    c.op.dtype = dtype;
    c.operands.floats[in(0)] = logits;
    c.operands.tokens[in(1)].assign(static_cast<size_t>(num_rows), label);
    return run(runner(), c.op, c.operands).correct;
  }
};

TEST_P(CrossEntropyOps, TheFirstOfEqualLogitsWins) {
  for (const tsr_dtype dtype : kDtypes) {
    const std::vector<float> equal = {2, 2, 1};
    EXPECT_EQ(count(equal, 0, dtype), 1);
    EXPECT_EQ(count(equal, 1, dtype), 0);
    EXPECT_EQ(count(equal, 2, dtype), 0);
    EXPECT_EQ(count({1, 2, 2}, 1, dtype), 1);
    EXPECT_EQ(count({1, 2, 2}, 2, dtype), 0);
    EXPECT_EQ(count({0, 0, 0}, 0, dtype), 1);
  }
}

TEST_P(CrossEntropyOps, InfinitiesAreComparedAndNaNIsNeverCorrect) {
  EXPECT_EQ(count({-INFINITY, 1, -INFINITY}, 1), 1);
  EXPECT_EQ(count({1, INFINITY, 3}, 1), 1);
  EXPECT_EQ(count({NAN, 1, 2}, 2), 0);
  EXPECT_EQ(count({1, NAN, 2}, 1), 0);
  EXPECT_EQ(count({3, 1, NAN}, 0), 0);
  EXPECT_EQ(count({NAN, 1, 2, 1, 2, 9, 5, NAN, 9, 4, 5, 6}, 2), 2);
}

TEST_P(CrossEntropyOps, LogitsFarApartAreNoOverflow) {
  OpCase c = cross_entropy_case({1, 1, 3});
  c.operands.floats[in(0)] = {-3e38f, 3e38f, 0};
  c.operands.tokens[in(1)] = {1};
  const Operands results = run(runner(), c.op, c.operands, kWrite);
  EXPECT_EQ(loss_of(results), 0);
  EXPECT_EQ(results.floats.at(din(0)), (std::vector<float>{0, 0, 0}));
}

TEST_P(CrossEntropyOps, CountWhatIsNotFinite) {
  OpCase c = cross_entropy_case({4, 1, 5});
  c.operands.floats[in(0)][7] = NAN;
  EXPECT_EQ(run(runner(), c.op, c.operands, kWrite).loss[0], 1);
}

TEST_P(CrossEntropyOps, RefuseLabelsThatAreNoClass) {
  for (const uint32_t phase : {TSR_PHASE_FORWARD, TSR_PHASE_BACKWARD})
    for (const int32_t label : {5, -2}) {
      OpCase c = cross_entropy_case({4, 1, 5});
      c.op.phase = phase;
      c.operands.tokens[in(1)][2] = label;
      expect_error([&] { run(runner(), c.op, c.operands, kWrite); },
                   {"label " + std::to_string(label) + " at position 2", "[0, 5)", "the model's classes"});
    }
}

TEST_P(CrossEntropyOps, HaveNoHalves) {
  tsr_op op = cross_entropy_case({4, 1, 5}).op;
  op.phase = TSR_PHASE_BACKWARD_WEIGHT;
  expect_error([&] { runner().describe(op); }, {"cross_entropy", "phase backward_weight"});
}

TEST_P(CrossEntropyOps, NeedClasses) {
  tsr_op op = cross_entropy_case({4, 1, 5}).op;
  op.dims[TSR_DIM_CLASSES] = 0;
  expect_error([&] { runner().describe(op); }, {"cross_entropy", "extent 0"});
}

TESSERA_EVERY_DEVICE(CrossEntropyOps);

}  // namespace
}  // namespace tessera::testing
