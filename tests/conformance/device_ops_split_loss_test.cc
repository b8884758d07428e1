// The three ops of the loss of a split vocabulary, on every device, and that the parts together are the loss of the
// whole.
#include <algorithm>
#include <cmath>

#include "support/device_under_test.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "support/reference_kernels.h"
#include "tessera/accumulator.hpp"
#include "tessera/op_slots.hpp"

namespace tessera::testing {
namespace {

constexpr RunOptions kWrite{.gradient_mode = TSR_MODE_WRITE};

double loss_of(const std::vector<int64_t>& limbs) {
  return decode(ConstAccumulatorView(limbs.data(), TSR_ACCUMULATOR_LIMBS));
}

tsr_op forward_of(tsr_op op) {
  op.phase = TSR_PHASE_FORWARD;
  return op;
}

class SplitLossOp : public DeviceOpTestOf<TokenExtents> {};

TEST_P(SplitLossOp, HeadLogitsAreTheReference) {
  const OpCase c = head_logits_case(extents());
  check_forward(device(), c.op, c.operands);
  check_backward(device(), c.op, c.operands);
}

TEST_P(SplitLossOp, SoftmaxStatsAreTheReference) {
  const OpCase c = softmax_stats_case(extents());
  check_forward(device(), c.op, c.operands);
}

TEST_P(SplitLossOp, GradientsOfLogitsAreTheReference) {
  const OpCase c = loss_grad_case(extents());
  check_backward(device(), c.op, c.operands);
}

TEST_P(SplitLossOp, BothPhasesAddTheSameLoss) {
  OpCase c = loss_grad_case(extents());
  Tensors statistics;
  for (const uint32_t slot : {in(1), in(2), in(3)})
    statistics[slot].assign(c.operands.floats[slot].begin(), c.operands.floats[slot].end());
  const tsr_op forward = forward_of(c.op);
  const double expected = reference_forward(forward, statistics, {}).begin()->second[0];
  const Operands results = run(runner(), c.op, c.operands, kWrite);
  EXPECT_NEAR(loss_of(results.loss), expected, 1e-6 * std::abs(expected));
  EXPECT_EQ(run(runner(), forward, c.operands, {.offset = -1}).loss, results.loss);
  EXPECT_EQ(run(runner(), c.op, c.operands, {.left_out = {din(0)}}).loss, results.loss);
  c.operands.loss = results.loss;
  EXPECT_NEAR(loss_of(run(runner(), forward, c.operands).loss), 2 * expected, 2e-6 * std::abs(expected));
}

TEST_P(SplitLossOp, AddingGivesTheBitsOfTheGradientAddedToWhatWasThere) {
  OpCase c = loss_grad_case(extents());
  std::vector<float> expected = run(runner(), c.op, c.operands, kWrite).floats.at(din(0));
  c.operands.floats[din(0)] = random_floats(expected.size(), 7);
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] += c.operands.floats[din(0)][i];
  EXPECT_EQ(run(runner(), c.op, c.operands).floats.at(din(0)), expected);
}

TEST_P(SplitLossOp, APowerOfTwoAsItsScaleOnlyScalesTheGradients) {
  OpCase c = loss_grad_case(extents());
  const Operands plain = run(runner(), c.op, c.operands, kWrite);
  c.operands.loss_scale = 65536;
  const Operands scaled = run(runner(), c.op, c.operands, kWrite);
  EXPECT_EQ(scaled.loss, plain.loss);
  for (size_t i = 0; i < plain.floats.at(din(0)).size(); ++i)
    ASSERT_EQ(scaled.floats.at(din(0))[i], 65536 * plain.floats.at(din(0))[i]) << i;
}

// The whole vocabulary; a part with all its rows; one with padding; one that ends before the vocabulary does.
TESSERA_EVERY_DEVICE_ON(SplitLossOp, TokenExtents, TokenExtents{1, 1, 7, 23, 0, 23, 23},
                        TokenExtents{2, 5, 48, 12, 11, 11, 22}, TokenExtents{1, 33, 33, 6, 12, 1, 13},
                        TokenExtents{2, 16, 7, 2001, 2000, 1999, 4000}, TokenExtents{1, 18, 40, 257, 0, 257, 257});

class LargeSplitLossOp : public DeviceOpTestOf<TokenExtents> {};

TEST_P(LargeSplitLossOp, IsTheReference) {
  const OpCase head = head_logits_case(extents()), stats = softmax_stats_case(extents());
  const OpCase grad = loss_grad_case(extents());
  check_forward(device(), head.op, head.operands, {4e-6}, Checks::kFew);
  check_backward(device(), head.op, head.operands, {2e-5}, Checks::kFew);
  check_forward(device(), stats.op, stats.operands, {4e-6}, Checks::kFew);
  check_backward(device(), grad.op, grad.operands, {4e-6}, Checks::kFew);
}

// Half of GPT-2's vocabulary, padded, and its width.
TESSERA_EVERY_DEVICE_ON(LargeSplitLossOp, TokenExtents, TokenExtents{1, 3, 24, 25216, 25216, 25041, 50257},
                        TokenExtents{1, 3, 768, 2560, 2560, 2443, 5003});

class SplitLossOps : public DeviceOpTest {};

TEST_P(SplitLossOps, OfPartsAndPaddingWithoutTokensAddNothing) {
  const TokenExtents part{1, 4, 3, 5, 15, 0, 13};
  const OpCase head = head_logits_case(part), stats = softmax_stats_case(part), grad = loss_grad_case(part);
  const Operands logits = run(runner(), head.op, head.operands);
  EXPECT_EQ(logits.floats.at(out(0)), std::vector<float>(20, 0.0f));
  EXPECT_EQ(logits.floats.at(out(1)), std::vector<float>(4, -INFINITY));
  const Operands sums = run(runner(), stats.op, stats.operands);
  EXPECT_EQ(sums.floats.at(out(0)), std::vector<float>(4, 0.0f));
  EXPECT_EQ(sums.floats.at(out(1)), std::vector<float>(4, 0.0f));
  EXPECT_EQ(run(runner(), grad.op, grad.operands, kWrite).floats.at(din(0)), std::vector<float>(20, 0.0f));
}

// What LOSS gives for the whole vocabulary, or the three ops for its parts.
struct Result {
  std::vector<int64_t> limbs;
  std::vector<float> dx, dtable;
};

constexpr int64_t kBatch = 2, kSeq = 9, kEmbed = 7, kVocabulary = 23;

Operands whole_operands(tsr_dtype dtype) {
  Operands operands;
  operands.floats[p(0)] = random_floats(kVocabulary * kEmbed, 11, 2.0f);
  operands.floats[in(0)] = random_floats(kBatch * kSeq * kEmbed, 12, 2.0f);
  for (auto& [slot, values] : operands.floats)
    for (float& value : values)
      value = rounded(dtype, value);
  operands.tokens[in(1)] = random_tokens(kBatch * kSeq, kVocabulary, 13);
  return operands;
}

Result run_whole(DeviceRunner& runner, tsr_dtype dtype) {
  tsr_op op = loss_case({kBatch, kSeq, kEmbed, kVocabulary}).op;
  op.dtype = dtype;
  const Operands results = run(runner, op, whole_operands(dtype), kWrite);
  return {results.loss, results.floats.at(din(0)), results.floats.at(g(0))};
}

void reduce(std::vector<float>& total, const std::vector<float>& values, float (*combine)(float, float)) {
  std::transform(total.begin(), total.end(), values.begin(), total.begin(), combine);
}
float largest_of(float a, float b) {
  return std::max(a, b);
}
float sum_of(float a, float b) {
  return a + b;
}

// Ranks of a vocabulary in `num_parts` parts of `num_rows` rows, with the reductions between them.
class SplitRun {
 public:
  SplitRun(DeviceRunner& runner, int64_t num_parts, int64_t num_rows, tsr_dtype dtype)
      : runner_(runner), dtype_(dtype), whole_(whole_operands(dtype)) {
    std::vector<float> table = whole_.floats.at(p(0));
    table.resize(static_cast<size_t>(num_parts * num_rows * kEmbed));
    for (int64_t i = 0; i < num_parts; ++i) {
      const int64_t begin = i * num_rows, count = std::clamp<int64_t>(kVocabulary - begin, 0, num_rows);
      parts_.push_back({kBatch, kSeq, kEmbed, num_rows, begin, count, kVocabulary});
      Operands head;
      head.floats[p(0)].assign(table.begin() + begin * kEmbed, table.begin() + (begin + num_rows) * kEmbed);
      head.floats[in(0)] = whole_.floats.at(in(0));
      heads_.push_back(head);
    }
  }

  Result run_all() {
    std::vector<float> largest(kBatch * kSeq, -INFINITY), sum(kBatch * kSeq), target_logit(kBatch * kSeq);
    for (size_t i = 0; i < parts_.size(); ++i) {
      heads_[i] = run(runner_, head(i, TSR_PHASE_FORWARD), heads_[i]);
      reduce(largest, heads_[i].floats.at(out(1)), largest_of);
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      Operands operands;
      operands.floats = {{in(0), heads_[i].floats.at(out(0))}, {in(1), largest}};
      operands.tokens[in(2)] = whole_.tokens.at(in(1));
      const Operands stats = run(runner_, softmax_stats_case(parts_[i]).op, operands);
      reduce(sum, stats.floats.at(out(0)), sum_of);
      reduce(target_logit, stats.floats.at(out(1)), sum_of);
    }
    Result result;
    result.dx.resize(kBatch * kSeq * kEmbed);
    for (size_t i = 0; i < parts_.size(); ++i) {
      Operands operands;
      operands.floats = {{in(0), heads_[i].floats.at(out(0))}, {in(1), largest}, {in(2), sum}, {in(3), target_logit}};
      operands.tokens[in(4)] = whole_.tokens.at(in(1));
      const Operands loss = run(runner_, loss_grad_case(parts_[i]).op, operands, kWrite);
      if (i > 0) {
        EXPECT_EQ(loss.loss, result.limbs);
      }
      result.limbs = loss.loss;
      heads_[i].floats[dout(0)] = loss.floats.at(din(0));
      const Operands gradients = run(runner_, head(i, TSR_PHASE_BACKWARD), heads_[i], kWrite);
      reduce(result.dx, gradients.floats.at(din(0)), sum_of);
      const std::vector<float>& dtable = gradients.floats.at(g(0));
      result.dtable.insert(result.dtable.end(), dtable.begin(), dtable.end());
    }
    return result;
  }

 private:
  tsr_op head(size_t part, uint32_t phase) const {
    tsr_op op = head_logits_case(parts_[part]).op;
    op.phase = phase;
    op.dtype = dtype_;
    return op;
  }

  DeviceRunner& runner_;
  const tsr_dtype dtype_;
  const Operands whole_;
  std::vector<TokenExtents> parts_;
  std::vector<Operands> heads_;
};

TEST_P(SplitLossOps, OfPartsTogetherAreTheLossOfTheWhole) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16}) {
    const Result whole = run_whole(runner(), dtype);
    const double expected = loss_of(whole.limbs);
    const double of_products = runner().is_cuda() ? kProductRoundoffs * roundoff(dtype) : 0;
    for (const auto& [num_parts, num_rows] : {std::pair{1, 23}, {1, 25}, {2, 12}, {3, 8}, {4, 6}, {4, 8}}) {
      const std::string what =
          std::to_string(num_parts) + " parts of " + std::to_string(num_rows) + " rows, " + op::dtype_name(dtype);
      Result split = SplitRun(runner(), num_parts, num_rows, dtype).run_all();
      EXPECT_NEAR(loss_of(split.limbs), expected, (1e-6 + of_products) * expected) << what;
      const std::vector<double> dx(whole.dx.begin(), whole.dx.end()), dtable(whole.dtable.begin(), whole.dtable.end());
      const double of_rounding = (num_parts + 1) * roundoff(dtype);  // of every part's, and of the whole's
      expect_close(split.dx, dx, {1e-5 + of_rounding + of_products}, "di0, " + what);
      for (size_t i = whole.dtable.size(); i < split.dtable.size(); ++i)
        EXPECT_EQ(split.dtable[i], 0.0f) << "g0 in padding, " << what;
      split.dtable.resize(whole.dtable.size());
      expect_close(split.dtable, dtable, {1e-5 + of_products}, "g0, " + what);
    }
  }
}

TEST_P(SplitLossOps, CountWhatIsNotFinite) {
  OpCase c = loss_grad_case({1, 4, 3, 5, 0, 5, 5});
  c.operands.floats[in(2)][1] = NAN;
  EXPECT_EQ(run(runner(), forward_of(c.op), c.operands).loss[0], 1);
}

TEST_P(SplitLossOps, RefuseTargetsOutsideOfTheWholeVocabulary) {
  OpCase c = softmax_stats_case({1, 4, 3, 5, 5, 4, 9});
  for (const auto& [target, text] : {std::pair{9, "target 9 at position 2"}, {-2, "target -2 at position 2"}}) {
    c.operands.tokens[in(2)][2] = target;
    expect_error([&] { run(runner(), c.op, c.operands); }, {text, "[0, 9)"});
  }
}

TEST_P(SplitLossOps, RefusePhasesAndPartsThatAreNone) {
  const TokenExtents part{1, 4, 3, 5, 5, 4, 9};
  const auto refuse = [this](tsr_op op, uint32_t phase, const std::vector<std::string>& texts) {
    op.phase = phase;
    expect_error([&] { runner().describe(op); }, texts);
  };
  refuse(head_logits_case(part).op, TSR_PHASE_NONE, {"op head_logits", "phase none"});
  refuse(softmax_stats_case(part).op, TSR_PHASE_BACKWARD, {"op softmax_stats", "phase backward"});
  refuse(loss_grad_case(part).op, TSR_PHASE_BACKWARD_INPUT, {"op loss_grad", "phase backward_input"});
  for (tsr_op op : {head_logits_case(part).op, softmax_stats_case(part).op, loss_grad_case(part).op}) {
    op.attributes[TSR_ATTR_VOCAB_COUNT] = 6;
    refuse(op, TSR_PHASE_FORWARD, {"VOCAB_COUNT 6", "table of 5 rows"});
  }
}

// Prepares `op` with `change` applied to one of its slots.
template <class Change>
void expect_refused(DeviceRunner& runner, const tsr_op& op, uint32_t slot, const Change& change,
                    const std::vector<std::string>& texts) {
  std::vector<BoundOperand> bound;
  for (tsr_slot_spec spec : runner.describe(op)) {
    if (spec.slot == slot) change(spec);
    bound.push_back({spec, std::vector<std::byte>(TSR_NUM_BYTES(spec.dtype, spec.num_elements))});
  }
  expect_error([&] { runner.run(op, bound); }, texts);
}

TEST_P(SplitLossOps, RefuseSlotsThatAreNotTheOps) {
  const TokenExtents part{1, 4, 3, 5, 5, 4, 9};
  tsr_op head = head_logits_case(part).op;
  head.dtype = TSR_BF16;
  expect_refused(runner(), head, out(0), [](tsr_slot_spec& slot) { slot.dtype = TSR_BF16; }, {"o0", "needs float32"});
  expect_refused(runner(), head, p(0), [](tsr_slot_spec& slot) { slot.dtype = TSR_F32; }, {"p0", "needs bfloat16"});
  expect_refused(runner(), softmax_stats_case(part).op, in(2), [](tsr_slot_spec& slot) { slot.dtype = TSR_F32; },
                 {"i2", "needs int32"});
  expect_refused(runner(), loss_grad_case(part).op, din(0), [](tsr_slot_spec& slot) { slot.num_elements = 16; },
                 {"di0", "needs 20"});
}

TESSERA_EVERY_DEVICE(SplitLossOps);

}  // namespace
}  // namespace tessera::testing
