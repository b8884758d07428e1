// Layer norm, add, and both in one.
#include <gtest/gtest.h>

#include "support/op_check.h"

namespace tessera {
namespace {

using namespace tessera::testing;

struct Case {
  int64_t batch, seq, embed;
};

tsr_op op_of(uint32_t kind, const Case& c) {
  return segment_op(kind, TSR_PHASE_FORWARD, {{TSR_DIM_BATCH, c.batch}, {TSR_DIM_SEQ, c.seq}, {TSR_DIM_EMBED, c.embed}},
                    {{TSR_ATTR_EPSILON, 1e-5}});
}

// All that any of the three ops reads.
Operands operands_of(const Case& c) {
  const auto columns = static_cast<uint64_t>(c.embed), elements = static_cast<uint64_t>(c.batch * c.seq) * columns;
  Operands operands;
  for (const uint32_t i : {0u, 1u, 2u})
    operands.floats[p(i)] = random_floats(columns, i);
  for (const uint32_t i : {0u, 1u}) {
    operands.floats[in(i)] = random_floats(elements, 10 + i, 3.0f);
    for (float& x : operands.floats[in(i)])
      x += 1.5f;  // a mean that is not small
  }
  return operands;
}

class NormTest : public ::testing::TestWithParam<Case> {};

TEST_P(NormTest, LayerNorm) {
  check_forward(op_of(TSR_OP_LAYER_NORM, GetParam()), operands_of(GetParam()));
  check_backward(op_of(TSR_OP_LAYER_NORM, GetParam()), operands_of(GetParam()));
}

TEST_P(NormTest, AddLayerNorm) {
  check_forward(op_of(TSR_OP_ADD_LAYER_NORM, GetParam()), operands_of(GetParam()));
  check_backward(op_of(TSR_OP_ADD_LAYER_NORM, GetParam()), operands_of(GetParam()));
}

TEST_P(NormTest, Add) {
  check_forward(op_of(TSR_OP_ADD, GetParam()), operands_of(GetParam()));
  check_backward(op_of(TSR_OP_ADD, GetParam()), operands_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Extents, NormTest,
                         ::testing::Values(Case{1, 1, 7}, Case{2, 5, 33}, Case{3, 32, 48}, Case{1, 33, 16},
                                           Case{2, 33, 768}));

TEST(NormReference, GradientsAreNumericalOnes) {
  const Case c{2, 3, 7};
  for (const uint32_t kind : {TSR_OP_LAYER_NORM, TSR_OP_ADD_LAYER_NORM, TSR_OP_ADD})
    check_reference(op_of(kind, c), operands_of(c));
}

TEST(Norm, AConstantRowHasTheBiasAsItsNorm) {
  const Case c{1, 1, 9};
  Operands operands = operands_of(c);
  operands.floats[in(0)].assign(9, 4.0f);
  EXPECT_EQ(run(op_of(TSR_OP_LAYER_NORM, c), operands).floats.at(out(0)), operands.floats.at(p(1)));
}

}  // namespace
}  // namespace tessera
