// Layer norm, add, and both in one, on every device.
#include "support/device_under_test.h"
#include "support/op_cases.h"

namespace tessera::testing {
namespace {

class NormOp : public DeviceOpTestOf<NormExtents> {
 protected:
  void check(uint32_t kind) const {
    const OpCase c = norm_case(kind, extents());
    check_forward(device(), c.op, c.operands);
    check_backward(device(), c.op, c.operands);
  }
};

TEST_P(NormOp, LayerNormIsTheReference) {
  check(TSR_OP_LAYER_NORM);
}
TEST_P(NormOp, AddLayerNormIsTheReference) {
  check(TSR_OP_ADD_LAYER_NORM);
}
TEST_P(NormOp, AddIsTheReference) {
  check(TSR_OP_ADD);
}

// Widths of GPT-2's models, odd ones, some that no vector divides, and some of which a GPU's thread has several
// vectors.
TESSERA_EVERY_DEVICE_ON(NormOp, NormExtents, NormExtents{1, 1, 7}, NormExtents{2, 5, 33}, NormExtents{3, 32, 48},
                        NormExtents{1, 33, 16}, NormExtents{2, 33, 768}, NormExtents{1, 17, 1600},
                        NormExtents{1, 3, 5001}, NormExtents{1, 3, 7184}, NormExtents{2, 200, 66});

class NormOps : public DeviceOpTest {};

TEST_P(NormOps, AConstantRowHasTheBiasAsItsNorm) {
  OpCase c = norm_case(TSR_OP_LAYER_NORM, {1, 1, 9});
  c.operands.floats[in(0)].assign(9, 4.0f);
  EXPECT_EQ(run(runner(), c.op, c.operands).floats.at(out(0)), c.operands.floats.at(p(1)));
}

TESSERA_EVERY_DEVICE(NormOps);

}  // namespace
}  // namespace tessera::testing
