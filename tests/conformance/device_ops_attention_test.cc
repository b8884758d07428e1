// Causal attention, on every device.
#include "support/device_under_test.h"
#include "support/op_cases.h"

namespace tessera::testing {
namespace {

class AttentionOp : public DeviceOpTestOf<AttentionExtents> {};

TEST_P(AttentionOp, ForwardIsTheReference) {
  const OpCase c = attention_case(extents());
  check_forward(device(), c.op, c.operands);
}
TEST_P(AttentionOp, BackwardIsTheReference) {
  const OpCase c = attention_case(extents());
  check_backward(device(), c.op, c.operands, {1e-5});
}

// Odd lengths and heads; tiles that are whole, and one element longer or shorter; heads wider than a tile.
TESSERA_EVERY_DEVICE_ON(AttentionOp, AttentionExtents, AttentionExtents{1, 1, 1, 7}, AttentionExtents{2, 5, 3, 16},
                        AttentionExtents{1, 17, 3, 11}, AttentionExtents{1, 32, 1, 33}, AttentionExtents{2, 33, 3, 16},
                        AttentionExtents{1, 64, 2, 8}, AttentionExtents{1, 65, 2, 8}, AttentionExtents{2, 40, 3, 24},
                        AttentionExtents{1, 150, 3, 11}, AttentionExtents{1, 20, 1, 128},
                        AttentionExtents{1, 33, 1, 200});

class LargeAttentionOp : public DeviceOpTestOf<AttentionExtents> {};

TEST_P(LargeAttentionOp, IsTheReference) {
  const OpCase c = attention_case(extents());
  check_forward(device(), c.op, c.operands, {2e-6}, Checks::kFew);
  check_backward(device(), c.op, c.operands, {1e-5}, Checks::kFew);
}

// Heads of GPT-2.
TESSERA_EVERY_DEVICE_ON(LargeAttentionOp, AttentionExtents, AttentionExtents{2, 64, 12, 64},
                        AttentionExtents{1, 257, 3, 64});

class AttentionOps : public DeviceOpTest {};

TEST_P(AttentionOps, AFutureTokenChangesNothing) {
  OpCase c = attention_case({1, 80, 2, 4});
  const auto before = run(runner(), c.op, c.operands).floats.at(out(0));
  const size_t width = 8, last = 79;
  for (size_t column = 0; column < 3 * width; ++column)
    c.operands.floats[in(0)][last * 3 * width + column] = 1e30f;
  const auto after = run(runner(), c.op, c.operands).floats.at(out(0));
  EXPECT_EQ(std::vector<float>(after.begin(), after.begin() + last * width),
            std::vector<float>(before.begin(), before.begin() + last * width));
}

TEST_P(AttentionOps, LargeScoresDoNotOverflow) {
  const OpCase c = attention_case({1, 40, 1, 16}, 30.0f);
  check_forward(device(), c.op, c.operands, {1e-4});
}

TESSERA_EVERY_DEVICE(AttentionOps);

}  // namespace
}  // namespace tessera::testing
