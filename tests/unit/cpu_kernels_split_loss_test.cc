// The loss of a vocabulary that is split: its three ops, and that the parts together are the loss of the whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cpu-device/slots.h"
#include "support/expect_error.h"
#include "support/op_check.h"
#include "support/reference_kernels.h"
#include "tessera/accumulator.hpp"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr double kScale = 1.0 / 37.0;
constexpr RunOptions kWrite{.gradient_mode = TSR_MODE_WRITE};

// A table of `num_rows` rows of tokens begin to begin + count - 1 of `total`.
struct Part {
  int64_t batch, seq, embed, num_rows, begin, count, total;

  uint64_t num_tokens() const { return static_cast<uint64_t>(batch * seq); }
  uint64_t num_logits() const { return num_tokens() * static_cast<uint64_t>(num_rows); }
};

tsr_op op_of(uint32_t kind, const Part& part, uint32_t phase) {
  return segment_op(kind, phase,
                    {{TSR_DIM_BATCH, part.batch},
                     {TSR_DIM_SEQ, part.seq},
                     {TSR_DIM_EMBED, part.embed},
                     {TSR_DIM_VOCAB, part.num_rows}},
                    {{TSR_ATTR_SCALE, kScale},
                     {TSR_ATTR_VOCAB_BEGIN, static_cast<double>(part.begin)},
                     {TSR_ATTR_VOCAB_COUNT, static_cast<double>(part.count)},
                     {TSR_ATTR_VOCAB_TOTAL, static_cast<double>(part.total)}});
}

Operands head_operands(const Part& part) {
  Operands operands;
  operands.floats[p(0)] = random_floats(static_cast<uint64_t>(part.count * part.embed), 1);
  operands.floats[p(0)].resize(static_cast<size_t>(part.num_rows * part.embed));  // padding is zero
  operands.floats[in(0)] = random_floats(part.num_tokens() * static_cast<uint64_t>(part.embed), 2);
  return operands;
}

// Logits of this part, and a maximum and a sum as those of the other parts leave them.
Operands logits_operands(const Part& part) {
  Operands operands;
  operands.floats[in(0)] = random_floats(part.num_logits(), 3, 6.0f);
  operands.floats[in(1)] = std::vector<float>(part.num_tokens(), 6.25f);
  operands.tokens[in(2)] = operands.tokens[in(4)] =
      random_tokens(part.num_tokens(), static_cast<int32_t>(part.total), 4);
  return operands;
}

Operands loss_operands(const Part& part) {
  Operands operands = logits_operands(part);
  operands.floats[in(2)] = random_floats(part.num_tokens(), 5, 3.0f);
  for (float& sum : operands.floats[in(2)])
    sum += 4.0f;
  operands.floats[in(3)] = random_floats(part.num_tokens(), 6, 6.0f);
  return operands;
}

double loss_of(const Operands& results) {
  return decode(ConstAccumulatorView(results.loss.data(), TSR_ACCUMULATOR_LIMBS));
}

class SplitLossTest : public ::testing::TestWithParam<Part> {};

TEST_P(SplitLossTest, HeadLogitsAreTheReference) {
  const tsr_op op = op_of(TSR_OP_HEAD_LOGITS, GetParam(), TSR_PHASE_FORWARD);
  check_forward(op, head_operands(GetParam()));
  check_backward(op, head_operands(GetParam()));
}

TEST_P(SplitLossTest, SoftmaxStatsAreTheReference) {
  check_forward(op_of(TSR_OP_SOFTMAX_STATS, GetParam(), TSR_PHASE_FORWARD), logits_operands(GetParam()));
}

TEST_P(SplitLossTest, GradientsOfLogitsAreTheReference) {
  check_backward(op_of(TSR_OP_LOSS_GRAD, GetParam(), TSR_PHASE_BACKWARD), loss_operands(GetParam()));
}

TEST_P(SplitLossTest, BothPhasesAddTheSameLoss) {
  const Part part = GetParam();
  Operands operands = loss_operands(part);
  Tensors statistics;
  for (const uint32_t slot : {in(1), in(2), in(3)})
    statistics[slot].assign(operands.floats[slot].begin(), operands.floats[slot].end());
  const tsr_op forward = op_of(TSR_OP_LOSS_GRAD, part, TSR_PHASE_FORWARD);
  const tsr_op backward = op_of(TSR_OP_LOSS_GRAD, part, TSR_PHASE_BACKWARD);
  const double expected = reference_forward(forward, statistics, {}).begin()->second[0];
  const Operands results = run(backward, operands, kWrite);
  EXPECT_NEAR(loss_of(results), expected, 1e-6 * std::abs(expected));
  EXPECT_EQ(run(forward, operands, {.num_threads = 3, .offset = -1}).loss, results.loss);
  EXPECT_EQ(run(backward, operands, {.left_out = {din(0)}}).loss, results.loss);
  operands.loss = results.loss;
  EXPECT_NEAR(loss_of(run(forward, operands)), 2 * expected, 2e-6 * std::abs(expected));
}

TEST_P(SplitLossTest, WhatIsMadeOfLogitsHasTheSameBitsOnAnyNumberOfThreads) {
  const tsr_op stats = op_of(TSR_OP_SOFTMAX_STATS, GetParam(), TSR_PHASE_FORWARD);
  const tsr_op grad = op_of(TSR_OP_LOSS_GRAD, GetParam(), TSR_PHASE_BACKWARD);
  const Operands logits = logits_operands(GetParam()), statistics = loss_operands(GetParam());
  const Operands one_stats = run(stats, logits), one_grad = run(grad, statistics, kWrite);
  for (const int num_threads : {2, 3, 5}) {
    const Operands results = run(stats, logits, {.num_threads = num_threads});
    EXPECT_EQ(results.floats.at(out(0)), one_stats.floats.at(out(0)));
    EXPECT_EQ(results.floats.at(out(1)), one_stats.floats.at(out(1)));
    const RunOptions options{.num_threads = num_threads, .gradient_mode = TSR_MODE_WRITE};
    EXPECT_EQ(run(grad, statistics, options).floats.at(din(0)), one_grad.floats.at(din(0)));
  }
}

TEST_P(SplitLossTest, AddingGivesTheBitsOfTheGradientAddedToWhatWasThere) {
  const tsr_op op = op_of(TSR_OP_LOSS_GRAD, GetParam(), TSR_PHASE_BACKWARD);
  Operands operands = loss_operands(GetParam());
  std::vector<float> expected = run(op, operands, kWrite).floats.at(din(0));
  operands.floats[din(0)] = random_floats(expected.size(), 7);
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] += operands.floats[din(0)][i];
  EXPECT_EQ(run(op, operands).floats.at(din(0)), expected);
}

TEST_P(SplitLossTest, APowerOfTwoAsItsScaleOnlyScalesTheGradients) {
  const tsr_op op = op_of(TSR_OP_LOSS_GRAD, GetParam(), TSR_PHASE_BACKWARD);
  Operands operands = loss_operands(GetParam());
  const Operands plain = run(op, operands, kWrite);
  operands.loss_scale = 65536;
  const Operands scaled = run(op, operands, kWrite);
  EXPECT_EQ(scaled.loss, plain.loss);
  for (size_t i = 0; i < plain.floats.at(din(0)).size(); ++i)
    EXPECT_EQ(scaled.floats.at(din(0))[i], 65536 * plain.floats.at(din(0))[i]);
}

INSTANTIATE_TEST_SUITE_P(Parts, SplitLossTest,
                         ::testing::Values(Part{1, 1, 7, 23, 0, 23, 23}, Part{2, 5, 48, 12, 11, 11, 22},
                                           Part{1, 33, 33, 6, 12, 1, 13}, Part{2, 16, 7, 2001, 2000, 1999, 4000}));

TEST(SplitLossReference, GradientsAreNumericalOnes) {
  const Part part{1, 3, 5, 7, 4, 6, 13};
  check_reference(op_of(TSR_OP_HEAD_LOGITS, part, TSR_PHASE_FORWARD), head_operands(part));
}

TEST(SplitLoss, PartsAndPaddingWithoutTokensAddNothing) {
  const Part part{1, 4, 3, 5, 15, 0, 13};
  const Operands head = run(op_of(TSR_OP_HEAD_LOGITS, part, TSR_PHASE_FORWARD), head_operands(part));
  EXPECT_EQ(head.floats.at(out(0)), std::vector<float>(20, 0.0f));
  EXPECT_EQ(head.floats.at(out(1)), std::vector<float>(4, -INFINITY));
  const Operands stats = run(op_of(TSR_OP_SOFTMAX_STATS, part, TSR_PHASE_FORWARD), logits_operands(part));
  EXPECT_EQ(stats.floats.at(out(0)), std::vector<float>(4, 0.0f));
  EXPECT_EQ(stats.floats.at(out(1)), std::vector<float>(4, 0.0f));
  const tsr_op op = op_of(TSR_OP_LOSS_GRAD, part, TSR_PHASE_BACKWARD);
  EXPECT_EQ(run(op, loss_operands(part), kWrite).floats.at(din(0)), std::vector<float>(20, 0.0f));
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

Result run_whole(tsr_dtype dtype) {
  tsr_op op = op_of(TSR_OP_LOSS, {kBatch, kSeq, kEmbed, kVocabulary, 0, 0, 0}, TSR_PHASE_BACKWARD);
  op.dtype = dtype;
  const Operands results = run(op, whole_operands(dtype), kWrite);
  return {results.loss, results.floats.at(din(0)), results.floats.at(g(0))};
}

void reduce(std::vector<float>& total, const std::vector<float>& values, float (*combine)(float, float)) {
  for (size_t i = 0; i < total.size(); ++i)
    total[i] = combine(total[i], values[i]);
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
  SplitRun(int64_t num_parts, int64_t num_rows, tsr_dtype dtype) : dtype_(dtype), whole_(whole_operands(dtype)) {
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
      heads_[i] = run(op(TSR_OP_HEAD_LOGITS, i, TSR_PHASE_FORWARD), heads_[i]);
      reduce(largest, heads_[i].floats.at(out(1)), largest_of);
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      Operands operands;
      operands.floats = {{in(0), heads_[i].floats.at(out(0))}, {in(1), largest}};
      operands.tokens[in(2)] = whole_.tokens.at(in(1));
      const Operands stats = run(op(TSR_OP_SOFTMAX_STATS, i, TSR_PHASE_FORWARD), operands);
      reduce(sum, stats.floats.at(out(0)), sum_of);
      reduce(target_logit, stats.floats.at(out(1)), sum_of);
    }
    Result result;
    result.dx.resize(kBatch * kSeq * kEmbed);
    for (size_t i = 0; i < parts_.size(); ++i) {
      Operands operands;
      operands.floats = {{in(0), heads_[i].floats.at(out(0))}, {in(1), largest}, {in(2), sum}, {in(3), target_logit}};
      operands.tokens[in(4)] = whole_.tokens.at(in(1));
      const Operands loss = run(op(TSR_OP_LOSS_GRAD, i, TSR_PHASE_BACKWARD), operands, kWrite);
      if (i > 0) {
        EXPECT_EQ(loss.loss, result.limbs);
      }
      result.limbs = loss.loss;
      heads_[i].floats[dout(0)] = loss.floats.at(din(0));
      const Operands gradients = run(op(TSR_OP_HEAD_LOGITS, i, TSR_PHASE_BACKWARD), heads_[i], kWrite);
      reduce(result.dx, gradients.floats.at(din(0)), sum_of);
      const std::vector<float>& dtable = gradients.floats.at(g(0));
      result.dtable.insert(result.dtable.end(), dtable.begin(), dtable.end());
    }
    return result;
  }

 private:
  tsr_op op(uint32_t kind, size_t part, uint32_t phase) const {
    tsr_op op = op_of(kind, parts_[part], phase);
    if (kind == TSR_OP_HEAD_LOGITS) op.dtype = dtype_;
    return op;
  }

  const tsr_dtype dtype_;
  const Operands whole_;
  std::vector<Part> parts_;
  std::vector<Operands> heads_;
};

TEST(SplitLoss, PartsTogetherAreTheLossOfTheWhole) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16}) {
    const Result whole = run_whole(dtype);
    const double expected = decode(ConstAccumulatorView(whole.limbs.data(), TSR_ACCUMULATOR_LIMBS));
    for (const auto& [num_parts, num_rows] : {std::pair{1, 23}, {1, 25}, {2, 12}, {3, 8}, {4, 6}, {4, 8}}) {
      const std::string what = std::to_string(num_parts) + " parts of " + std::to_string(num_rows) + " rows";
      Result split = SplitRun(num_parts, num_rows, dtype).run_all();
      const double loss = decode(ConstAccumulatorView(split.limbs.data(), TSR_ACCUMULATOR_LIMBS));
      EXPECT_NEAR(loss, expected, 1e-6 * expected) << what;
      const std::vector<double> dx(whole.dx.begin(), whole.dx.end()), dtable(whole.dtable.begin(), whole.dtable.end());
      const double of_rounding = (num_parts + 1) * roundoff(dtype);  // of every part's, and of the whole's
      expect_close(split.dx, dx, {1e-5 + of_rounding}, "di0, " + what);
      for (size_t i = whole.dtable.size(); i < split.dtable.size(); ++i)
        EXPECT_EQ(split.dtable[i], 0.0f) << "g0 in padding, " << what;
      split.dtable.resize(whole.dtable.size());
      expect_close(split.dtable, dtable, {1e-5}, "g0, " + what);
    }
  }
}

TEST(SplitLoss, CountsWhatIsNotFinite) {
  const Part part{1, 4, 3, 5, 0, 5, 5};
  Operands operands = loss_operands(part);
  operands.floats[in(2)][1] = NAN;
  EXPECT_EQ(run(op_of(TSR_OP_LOSS_GRAD, part, TSR_PHASE_FORWARD), operands).loss[0], 1);
}

TEST(SplitLoss, RefusesTargetsOutsideOfTheWholeVocabulary) {
  const Part part{1, 4, 3, 5, 5, 4, 9};
  Operands operands = logits_operands(part);
  for (const auto& [target, text] : {std::pair{9, "target 9 at position 2"}, {-1, "target -1 at position 2"}}) {
    operands.tokens[in(2)][2] = target;
    expect_error([&] { run(op_of(TSR_OP_SOFTMAX_STATS, part, TSR_PHASE_FORWARD), operands); }, {text, "[0, 9)"});
  }
}

TEST(SplitLoss, RefusesPhasesAndPartsThatAreNone) {
  const Part part{1, 4, 3, 5, 5, 4, 9};
  const auto refuse = [](const tsr_op& op, const std::vector<std::string>& texts) {
    expect_error([&] { cpu::compute_ops(op.kind)->describe(op); }, texts);
  };
  refuse(op_of(TSR_OP_HEAD_LOGITS, part, TSR_PHASE_NONE), {"op 9", "phase 0"});
  refuse(op_of(TSR_OP_SOFTMAX_STATS, part, TSR_PHASE_BACKWARD), {"op 10", "phase 2"});
  refuse(op_of(TSR_OP_LOSS_GRAD, part, TSR_PHASE_BACKWARD_INPUT), {"op 11", "phase 3"});
  for (const uint32_t kind : {TSR_OP_HEAD_LOGITS, TSR_OP_SOFTMAX_STATS, TSR_OP_LOSS_GRAD}) {
    tsr_op op = op_of(kind, part, TSR_PHASE_FORWARD);
    op.attributes[TSR_ATTR_VOCAB_COUNT] = 6;
    refuse(op, {"VOCAB_COUNT 6", "table of 5 rows"});
  }
}

// Slots of `op` with `change` applied to one.
template <class Change>
void expect_refused(const tsr_op& op, uint32_t slot, const Change& change, const std::vector<std::string>& texts) {
  const auto described = cpu::compute_ops(op.kind)->describe(op);
  auto bound = described;
  change(bound[static_cast<size_t>(cpu::slot_index(described, slot))]);
  expect_error([&] { cpu::check_slots(described, bound); }, texts);
}

TEST(SplitLoss, RefusesSlotsThatAreNotTheOps) {
  const Part part{1, 4, 3, 5, 5, 4, 9};
  tsr_op head = op_of(TSR_OP_HEAD_LOGITS, part, TSR_PHASE_FORWARD);
  head.dtype = TSR_BF16;
  expect_refused(head, out(0), [](tsr_slot_spec& slot) { slot.dtype = TSR_BF16; }, {"o0", "needs float32"});
  expect_refused(head, p(0), [](tsr_slot_spec& slot) { slot.dtype = TSR_F32; }, {"p0", "needs bfloat16"});
  expect_refused(op_of(TSR_OP_SOFTMAX_STATS, part, TSR_PHASE_FORWARD), in(2),
                 [](tsr_slot_spec& slot) { slot.dtype = TSR_F32; }, {"i2", "needs int32"});
  expect_refused(op_of(TSR_OP_LOSS_GRAD, part, TSR_PHASE_BACKWARD), din(0),
                 [](tsr_slot_spec& slot) { slot.num_elements = 16; }, {"di0", "needs 20"});
}

}  // namespace
}  // namespace tessera
