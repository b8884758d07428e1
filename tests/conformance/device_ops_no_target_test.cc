// Rows without a target, in every op that takes targets or labels: they have no loss and a gradient of zero, and change
// no bit of the others.
#include <algorithm>

#include "support/device_under_test.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "tessera/accumulator.hpp"

namespace tessera::testing {
namespace {

constexpr RunOptions kWrite{.gradient_mode = TSR_MODE_WRITE};
constexpr size_t kRows = 6;

/// An op with six rows; its targets, and the gradient that has a row for each of these.
struct Case {
  OpCase op_case;
  uint32_t targets, gradient;
};

Case loss() {
  return {loss_case({2, 3, 7, 19}), in(1), din(0)};
}
Case loss_grad() {
  return {loss_grad_case({2, 3, 7, 19, 0, 19, 19}), in(4), din(0)};
}
Case cross_entropy() {
  return {cross_entropy_case({6, 1, 19}), in(1), din(0)};
}

class NoTarget : public DeviceOpTest {
 protected:
  /// With the targets of some rows taken away.
  Operands run_without(const Case& c, const std::vector<size_t>& rows, uint32_t phase = TSR_PHASE_BACKWARD,
                       const RunOptions& options = kWrite) {
    Case changed = c;
    changed.op_case.op.phase = phase;
    for (const size_t row : rows)
      changed.op_case.operands.tokens.at(c.targets)[row] = TSR_NO_TARGET;
    return run(runner(), changed.op_case.op, changed.op_case.operands, options);
  }

  void expect_row(const Case& c, const Operands& results, const Operands& expected, size_t row, bool has_target) {
    const std::vector<float>& gradient = results.floats.at(c.gradient);
    const size_t columns = gradient.size() / kRows;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i)
      ASSERT_EQ(gradient[i], has_target ? expected.floats.at(c.gradient)[i] : 0.0f) << "row " << row;
  }
};

const std::vector<size_t> kAll = {0, 1, 2, 3, 4, 5}, kSome = {1, 5}, kOthers = {0, 2, 3, 4};

TEST_P(NoTarget, RowsWithoutOneHaveAGradientOfZeroAndChangeNoOther) {
  for (const Case& c : {loss(), loss_grad(), cross_entropy()}) {
    const Operands all = run_without(c, {}), some = run_without(c, kSome);
    for (size_t row = 0; row < kRows; ++row)
      expect_row(c, some, all, row, !std::ranges::count(kSome, row));
  }
}

TEST_P(NoTarget, TheirGradientAddsNothing) {
  for (Case c : {loss_grad(), cross_entropy()}) {
    std::vector<float>& before = c.op_case.operands.floats[c.gradient];
    before = random_floats(kRows * 19, 3);
    const Operands added = run_without(c, kAll, TSR_PHASE_BACKWARD, {});
    EXPECT_EQ(added.floats.at(c.gradient), before);
  }
}

// Losses are added without rounding, so those of two halves of the rows add up to that of all, to the bit.
TEST_P(NoTarget, LossesAreThoseOfTheOtherRows) {
  for (const Case& c : {loss(), cross_entropy()})
    for (const uint32_t phase : {TSR_PHASE_FORWARD, TSR_PHASE_BACKWARD}) {
      const Operands all = run_without(c, {}, phase), none = run_without(c, kAll, phase);
      const Operands some = run_without(c, kSome, phase), others = run_without(c, kOthers, phase);
      EXPECT_EQ(none.loss, std::vector<int64_t>(TSR_ACCUMULATOR_LIMBS, 0));
      EXPECT_EQ(none.correct, 0);
      Accumulator sum{};
      accumulate(sum, ConstAccumulatorView(some.loss.data(), TSR_ACCUMULATOR_LIMBS));
      accumulate(sum, ConstAccumulatorView(others.loss.data(), TSR_ACCUMULATOR_LIMBS));
      carry(sum);
      EXPECT_EQ(std::vector<int64_t>(sum.begin(), sum.end()), all.loss);
      EXPECT_NE(some.loss, others.loss);
      EXPECT_EQ(some.correct + others.correct, all.correct);
    }
}

// LOSS_GRAD's forward does not read targets, so the statistics say it: max + log(1) - max.
TEST_P(NoTarget, StatisticsOfASplitVocabularyAreThoseOfALossOfZero) {
  for (const int64_t begin : {0, 5}) {
    OpCase c = softmax_stats_case({1, 6, 3, 5, begin, 5, 10});
    const Operands all = run(runner(), c.op, c.operands);
    c.operands.tokens[in(2)][4] = TSR_NO_TARGET;
    const Operands results = run(runner(), c.op, c.operands);
    for (size_t row = 0; row < kRows; ++row) {
      const float max = c.operands.floats.at(in(1))[row];
      EXPECT_EQ(results.floats.at(out(0))[row], row != 4 ? all.floats.at(out(0))[row] : begin == 0 ? 1.0f : 0.0f);
      EXPECT_EQ(results.floats.at(out(1))[row], row != 4 ? all.floats.at(out(1))[row] : begin == 0 ? max : 0.0f);
    }
  }
  OpCase grad = loss_grad().op_case;
  grad.op.phase = TSR_PHASE_FORWARD;
  grad.operands.floats[in(2)].assign(kRows, 1.0f);
  grad.operands.floats[in(3)] = grad.operands.floats.at(in(1));
  EXPECT_EQ(run(runner(), grad.op, grad.operands).loss, std::vector<int64_t>(TSR_ACCUMULATOR_LIMBS, 0));
}

TEST_P(NoTarget, OtherNegativeTargetsAreRefused) {
  for (Case c : {loss(), cross_entropy()}) {
    c.op_case.operands.tokens[c.targets][2] = -2;
    expect_error([&] { run(runner(), c.op_case.op, c.op_case.operands, kWrite); }, {" -2 at position 2", "[0, 19)"});
  }
}

TESSERA_EVERY_DEVICE(NoTarget);

}  // namespace
}  // namespace tessera::testing
