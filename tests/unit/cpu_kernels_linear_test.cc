// Linear layers: every activation, with and without bias, odd extents.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/op_check.h"

namespace tessera {
namespace {

using namespace tessera::testing;

struct Case {
  int64_t batch, seq, in, out;
  int activation;
  bool has_bias;
};

tsr_op op_of(const Case& c) {
  return segment_op(TSR_OP_LINEAR, TSR_PHASE_FORWARD,
                    {{TSR_DIM_BATCH, c.batch}, {TSR_DIM_SEQ, c.seq}, {TSR_DIM_IN, c.in}, {TSR_DIM_OUT, c.out}},
                    {{TSR_ATTR_ACTIVATION, c.activation}, {TSR_ATTR_HAS_BIAS, c.has_bias ? 1.0 : 0.0}});
}

Operands operands_of(const Case& c) {
  Operands operands;
  operands.floats[p(0)] = random_floats(static_cast<uint64_t>(c.in * c.out), 1, 0.5f);
  if (c.has_bias) operands.floats[p(1)] = random_floats(static_cast<uint64_t>(c.out), 2);
  operands.floats[in(0)] = random_floats(static_cast<uint64_t>(c.batch * c.seq * c.in), 3, 2.0f);
  return operands;
}

class LinearTest : public ::testing::TestWithParam<Case> {};

TEST_P(LinearTest, ForwardIsTheReference) {
  check_forward(op_of(GetParam()), operands_of(GetParam()));
}
TEST_P(LinearTest, BackwardIsTheReference) {
  check_backward(op_of(GetParam()), operands_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Extents, LinearTest,
                         ::testing::Values(Case{1, 1, 1, 1, 0, true}, Case{2, 5, 7, 33, 0, true},
                                           Case{1, 33, 48, 7, 0, false}, Case{2, 16, 33, 101, 1, true},
                                           Case{1, 5, 48, 192, 1, false}, Case{3, 7, 20, 31, 2, true},
                                           Case{1, 64, 192, 48, 2, false}));

TEST(LinearReference, GradientsAreNumericalOnes) {
  for (const int activation : {TSR_ACTIVATION_NONE, TSR_ACTIVATION_GELU_TANH}) {
    const Case c{2, 3, 5, 7, activation, true};
    check_reference(op_of(c), operands_of(c));
  }
}

TEST(Linear, TheContextStandsBetweenTheHalves) {
  tsr_op op = op_of({1, 4, 3, 5, TSR_ACTIVATION_RELU, false});
  op.phase = TSR_PHASE_BACKWARD_WEIGHT;
  const auto slots = cpu::compute_ops(op.kind)->describe(op);
  std::vector<uint32_t> listed;
  for (const tsr_slot_spec& slot : slots)
    listed.push_back(slot.slot);
  EXPECT_EQ(listed, (std::vector<uint32_t>{in(0), g(0), context(0)}));
  EXPECT_EQ(slots.back().num_elements, 20u);
}

TEST(Linear, RefusesWhatItCannotCompute) {
  const cpu::OpFamily& family = *cpu::compute_ops(TSR_OP_LINEAR);
  tsr_op op = op_of({1, 4, 3, 5, 7, false});
  expect_error([&] { family.describe(op); }, {"activation 7"});
  op = op_of({1, 4, 0, 5, 0, false});
  expect_error([&] { family.describe(op); }, {"extent 0", "dim 5"});
  op = op_of({1, 4, 3, 5, 0, false});
  op.dtype = TSR_F64;
  expect_error([&] { family.describe(op); }, {"float64", "float32, bfloat16 and float16"});
  op.dtype = TSR_BF16;
  op.phase = TSR_PHASE_BACKWARD;
  op.gradient_dtype = TSR_BF16;
  expect_error([&] { family.describe(op); }, {"gradients of parameters in bfloat16", "float32"});
}

}  // namespace
}  // namespace tessera
