// Causal attention: odd lengths and heads, one block of queries and several.
#include <gtest/gtest.h>

#include "support/op_check.h"

namespace tessera {
namespace {

using namespace tessera::testing;

struct Case {
  int64_t batch, seq, heads, head_dim;
};

tsr_op op_of(const Case& c) {
  return segment_op(
      TSR_OP_ATTENTION, TSR_PHASE_FORWARD,
      {{TSR_DIM_BATCH, c.batch}, {TSR_DIM_SEQ, c.seq}, {TSR_DIM_HEADS, c.heads}, {TSR_DIM_HEAD_DIM, c.head_dim}});
}

Operands operands_of(const Case& c, float scale = 2.0f) {
  Operands operands;
  operands.floats[in(0)] = random_floats(static_cast<uint64_t>(c.batch * c.seq * 3 * c.heads * c.head_dim), 1, scale);
  return operands;
}

class AttentionTest : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionTest, ForwardIsTheReference) {
  check_forward(op_of(GetParam()), operands_of(GetParam()));
}
TEST_P(AttentionTest, BackwardIsTheReference) {
  check_backward(op_of(GetParam()), operands_of(GetParam()), {1e-5});
}

INSTANTIATE_TEST_SUITE_P(Extents, AttentionTest,
                         ::testing::Values(Case{1, 1, 1, 7}, Case{2, 5, 3, 16}, Case{1, 32, 1, 33}, Case{2, 33, 3, 16},
                                           Case{1, 64, 2, 8}, Case{1, 65, 2, 8}, Case{1, 150, 3, 11}));

TEST(AttentionReference, GradientsAreNumericalOnes) {
  const Case c{2, 5, 2, 3};
  check_reference(op_of(c), operands_of(c));
}

TEST(Attention, AFutureTokenChangesNothing) {
  const Case c{1, 80, 2, 4};
  Operands operands = operands_of(c);
  const auto before = run(op_of(c), operands).floats.at(out(0));
  const size_t width = 8, last = 79;
  for (size_t column = 0; column < 3 * width; ++column)
    operands.floats[in(0)][last * 3 * width + column] = 1e30f;
  const auto after = run(op_of(c), operands).floats.at(out(0));
  EXPECT_EQ(std::vector<float>(after.begin(), after.begin() + last * width),
            std::vector<float>(before.begin(), before.begin() + last * width));
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const Case c{1, 40, 1, 16};
  check_forward(op_of(c), operands_of(c, 30.0f), {1e-4});
}

}  // namespace
}  // namespace tessera
