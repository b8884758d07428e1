// The float64 references of the ops of segments: their gradients are numerical ones.
#include <gtest/gtest.h>

#include "support/op_cases.h"
#include "support/op_check.h"

namespace tessera::testing {
namespace {

void check(const OpCase& c) {
  check_reference(c.op, c.operands);
}

TEST(ReferenceKernels, GradientsAreNumericalOnes) {
  check(token_embedding_case(1, 5, 3, 4));
  check(position_embedding_case({2, 3, 3, 4}));
  check(position_embedding_case({1, 5, 3, 4, 2, 4}));
  for (const uint32_t kind : {TSR_OP_LAYER_NORM, TSR_OP_ADD_LAYER_NORM, TSR_OP_ADD})
    check(norm_case(kind, {2, 3, 7}));
  for (const int activation : {TSR_ACTIVATION_NONE, TSR_ACTIVATION_GELU_TANH})
    check(linear_case({2, 3, 5, 7, activation, true}));
  check(attention_case({2, 5, 2, 3}));
  check(loss_case({1, 3, 5, 7}));
  check(cross_entropy_case({3, 2, 7}));
  check(head_logits_case({1, 3, 5, 7, 4, 6, 13}));
}

}  // namespace
}  // namespace tessera::testing
