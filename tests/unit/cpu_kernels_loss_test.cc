// Softmax cross-entropy: exact sums of losses, gradients over one chunk of tokens and over several.
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/op_check.h"
#include "support/reference_kernels.h"
#include "tessera/accumulator.hpp"

namespace tessera {
namespace {

using namespace tessera::testing;

struct Case {
  int64_t batch, seq, embed, vocabulary;
};

tsr_op op_of(const Case& c, uint32_t phase = TSR_PHASE_BACKWARD) {
  return segment_op(
      TSR_OP_LOSS, phase,
      {{TSR_DIM_BATCH, c.batch}, {TSR_DIM_SEQ, c.seq}, {TSR_DIM_EMBED, c.embed}, {TSR_DIM_VOCAB, c.vocabulary}},
      {{TSR_ATTR_SCALE, 1.0 / 37.0}});
}

Operands operands_of(const Case& c) {
  const auto num_tokens = static_cast<uint64_t>(c.batch * c.seq), embed = static_cast<uint64_t>(c.embed);
  Operands operands;
  operands.floats[p(0)] = random_floats(static_cast<uint64_t>(c.vocabulary) * embed, 1);
  operands.floats[in(0)] = random_floats(num_tokens * embed, 2);
  operands.tokens[in(1)] = random_tokens(num_tokens, static_cast<int32_t>(c.vocabulary), 3);
  return operands;
}

double loss_of(const Operands& results) {
  return decode(ConstAccumulatorView(results.loss.data(), TSR_ACCUMULATOR_LIMBS));
}

Tensors widened(const Operands& operands) {
  Tensors tensors;
  for (const auto& [slot, values] : operands.floats)
    tensors[slot].assign(values.begin(), values.end());
  return tensors;
}

double reference_loss(const Case& c, const Operands& operands) {
  return reference_forward(op_of(c), widened(operands), operands.tokens).begin()->second[0];
}

class LossTest : public ::testing::TestWithParam<Case> {};

TEST_P(LossTest, BothPhasesAddTheSameLoss) {
  const Case c = GetParam();
  Operands operands = operands_of(c);
  const double expected = reference_loss(c, operands);
  const RunOptions write{.gradient_mode = TSR_MODE_WRITE};
  const Operands train = run(op_of(c), operands, write);
  EXPECT_NEAR(loss_of(train), expected, 1e-6 * expected);
  EXPECT_EQ(run(op_of(c, TSR_PHASE_FORWARD), operands, {.num_threads = 1, .offset = -1}).loss, train.loss);
  operands.loss = train.loss;
  EXPECT_NEAR(loss_of(run(op_of(c), operands, write)), 2 * expected, 2e-6 * expected);
}

TEST_P(LossTest, IsTheFloat32LossOfRoundedOperands) {
  const Case c = GetParam();
  for (const tsr_dtype dtype : {TSR_BF16, TSR_F16}) {
    Operands operands = operands_of(c);
    for (auto& [slot, values] : operands.floats)
      for (float& value : values)
        value = rounded(dtype, value);
    const RunOptions write{.gradient_mode = TSR_MODE_WRITE};
    tsr_op op = op_of(c);
    const Operands in_float32 = run(op, operands, write);
    op.dtype = dtype;
    const Operands in_16_bit = run(op, operands, write);
    EXPECT_EQ(in_16_bit.loss, in_float32.loss);
    EXPECT_EQ(in_16_bit.floats.at(g(0)), in_float32.floats.at(g(0)));
    for (size_t i = 0; i < operands.floats.at(in(0)).size(); ++i)
      EXPECT_EQ(in_16_bit.floats.at(din(0))[i], rounded(dtype, in_float32.floats.at(din(0))[i]));
  }
}

// Gradients in which nothing over- or underflows.
TEST_P(LossTest, APowerOfTwoAsItsScaleOnlyScalesTheGradients) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16}) {
    tsr_op op = op_of(GetParam());
    op.dtype = dtype;
    Operands operands = operands_of(GetParam());
    const RunOptions write{.gradient_mode = TSR_MODE_WRITE};
    const Operands plain = run(op, operands, write);
    operands.loss_scale = 1;
    const Operands unscaled = run(op, operands, write);
    operands.loss_scale = 65536;
    const Operands scaled = run(op, operands, write);
    EXPECT_EQ(scaled.loss, plain.loss);
    for (const uint32_t slot : {g(0), din(0)}) {
      EXPECT_EQ(unscaled.floats.at(slot), plain.floats.at(slot));
      for (size_t i = 0; i < plain.floats.at(slot).size(); ++i)
        EXPECT_EQ(scaled.floats.at(slot)[i], 65536 * plain.floats.at(slot)[i]);
    }
  }
}

TEST(Loss, AScaleKeepsGradientsThatFloat16WouldFlushToZero) {
  tsr_op op = op_of({1, 4, 3, 5});
  op.dtype = TSR_F16;
  op.attributes[TSR_ATTR_SCALE] = 1e-9;
  Operands operands = operands_of({1, 4, 3, 5});
  const RunOptions write{.gradient_mode = TSR_MODE_WRITE};
  EXPECT_EQ(run(op, operands, write).floats.at(din(0)), std::vector<float>(12, 0.0f));
  operands.loss_scale = 65536;
  const auto scaled = run(op, operands, write).floats;
  for (const float value : scaled.at(din(0)))
    EXPECT_NE(value, 0.0f);
}

TEST_P(LossTest, GradientsAreTheReference) {
  check_backward(op_of(GetParam()), operands_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Extents, LossTest,
                         ::testing::Values(Case{1, 1, 7, 96}, Case{2, 5, 48, 101}, Case{1, 33, 33, 96},
                                           Case{2, 16, 7, 2000}));

TEST(LossReference, GradientsAreNumericalOnes) {
  const Case c{1, 3, 5, 7};
  check_reference(op_of(c), operands_of(c));
}

TEST(Loss, GoesOverChunksOfTokens) {
  // 64 MiB of logits hold 16 tokens of this vocabulary: a chunk and a shorter one.
  const Case c{1, 19, 1, 1 << 20};
  const tsr_op op = op_of(c);
  const auto slots = cpu::compute_ops(TSR_OP_LOSS)->describe(op);
  const auto logits = static_cast<size_t>(cpu::slot_index(slots, TSR_SLOT(TSR_ROLE_WORKSPACE, 0)));
  EXPECT_EQ(slots[logits].num_elements, uint64_t{16} << 20);
  const Operands operands = operands_of(c);
  const Operands results = run(op, operands, {.gradient_mode = TSR_MODE_WRITE});
  EXPECT_NEAR(loss_of(results), reference_loss(c, operands), 1e-6 * 19 * std::log(c.vocabulary));
  const Tensors reference = reference_backward(op, widened(operands), operands.tokens);
  expect_close(results.floats.at(g(0)), reference.at(g(0)), {4e-6}, "g0");
  expect_close(results.floats.at(din(0)), reference.at(din(0)), {1e-3}, "di0");  // sums of 2^20 terms in float32
}

TEST(Loss, CountsWhatIsNotFinite) {
  const Case c{1, 4, 3, 5};
  Operands operands = operands_of(c);
  operands.floats[in(0)][4] = NAN;
  const Operands results = run(op_of(c, TSR_PHASE_FORWARD), operands);
  EXPECT_EQ(results.loss[0], 1);
  EXPECT_TRUE(std::isnan(loss_of(results)));
}

TEST(Loss, RefusesTargetsOutsideOfTheVocabulary) {
  const Case c{1, 4, 3, 5};
  Operands operands = operands_of(c);
  operands.tokens[in(1)][2] = 5;
  expect_error([&] { run(op_of(c, TSR_PHASE_FORWARD), operands); }, {"target 5 at position 2", "[0, 5)"});
}

TEST(Loss, HasNoHalves) {
  expect_error(
      [] {
        cpu::compute_ops(TSR_OP_LOSS)->describe(op_of({1, 4, 3, 5}, TSR_PHASE_BACKWARD_INPUT));
      },
      {"phase 3"});
}

}  // namespace
}  // namespace tessera
