// The sums that tensor inserts.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "compile/edit/pass_runner.h"
#include "support/program_builder.h"
#include "tensor.h"

namespace tessera::testing {
using namespace host;
namespace {

using Table = StrategyTable<tensor::Tensor, TSR_STRATEGY_SPLIT_COMPUTE, TSR_SPLITS_TENSORS>;

/// One value goes into so many layers whose columns are split; each adds to its gradient.
class ColumnsOf {
 public:
  explicit ColumnsOf(int num_layers) {
    for (int layer = 1; layer <= num_layers; ++layer) {
      Segment& segment = model_.segments[static_cast<size_t>(layer)];
      segment.inputs = {model_.segments[1].inputs[0]};
      model_.values[static_cast<size_t>(segment.outputs[0])].dims[1].name = TSR_DIM_FFN;
      model_.parameters[static_cast<size_t>(segment.parameters[0])].dims[1].name = TSR_DIM_FFN;
      LayoutEntry& split = program_.layout.emplace_back();
      split.parameter = segment.parameters[0];
      split.axis = 0;
      split.kind = TSR_LAYOUT_SPLIT;
      split.dim = 1;
    }
    gradient_ = transient(program_, "gradient", 128);
    for (int layer = num_layers; layer > 0; --layer) {
      Action& backward = add_action(program_, TSR_ACTION_BACKWARD, TSR_STREAM_COMPUTE,
                                    {add(gradient_, TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0))});
      backward.segment = layer;
      backward.micro_batch = 0;
    }
    tsr_option_value sequence_parallel{};
    sequence_parallel.name = str("sequence-parallel");
    tensor::Tensor tensor("tp", {&sequence_parallel, 1});
    Strategy& strategy = tensor;
    run_pass(program_, {"tensor", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)},
             [](const tsr_op&) { return std::vector<tsr_slot_spec>(); });
  }

  std::vector<uint32_t> kinds() const {
    std::vector<uint32_t> kinds;
    for (const Action& action : program_.actions)
      kinds.push_back(action.kind);
    return kinds;
  }
  /// Whether that action touches the gradient that they share.
  bool shares(size_t action) const {
    return std::ranges::count(program_.actions.at(action).bindings, gradient_, &Binding::buffer) > 0;
  }

 private:
  Model model_ = toy_model(2);
  const Mesh mesh_{{{"tp", 2, TSR_SPLITS_TENSORS}}};
  Program program_ = empty_program(model_, mesh_);
  uint64_t gradient_ = 0;
};

TEST(TensorPass, SumsAGradientInPlace) {
  const ColumnsOf one(1);
  EXPECT_EQ(one.kinds(), (std::vector<uint32_t>{TSR_ACTION_BACKWARD, TSR_ACTION_ALL_REDUCE}));
  EXPECT_TRUE(one.shares(0) && one.shares(1));
}

TEST(TensorPass, SumsApartWhatIsAddedToOthers) {
  const ColumnsOf two(2);
  ASSERT_EQ(two.kinds(), (std::vector<uint32_t>{TSR_ACTION_BACKWARD, TSR_ACTION_ALL_REDUCE, TSR_ACTION_ADD_INTO,
                                                TSR_ACTION_BACKWARD, TSR_ACTION_ALL_REDUCE, TSR_ACTION_ADD_INTO}));
  for (const size_t layer : {0, 3}) {
    EXPECT_FALSE(two.shares(layer) || two.shares(layer + 1));
    EXPECT_TRUE(two.shares(layer + 2));
  }
}

}  // namespace
}  // namespace tessera::testing
