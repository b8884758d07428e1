// Axes whose ranks train parameters of their own: what the layout may say, the scale of the loss, and which rank sums
// squares.
#include "passes/divergence.h"

#include <gtest/gtest.h>

#include "cpu-device/device.h"
#include "model/gpt2/gpt2.h"
#include "passes/build_program.h"
#include "passes/finalize.h"
#include "passes/zero_pads.h"
#include "support/expect_error.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr int kIsland = 0, kTensor = 2;

class Divergence : public ::testing::Test {
 protected:
  static LayoutEntry divergent(int parameter, int axis = kIsland) {
    LayoutEntry split;
    split.parameter = parameter;
    split.axis = axis;
    split.kind = TSR_LAYOUT_DIVERGENT;
    return split;
  }
  Layout all_diverge() const {
    Layout layout;
    for (size_t p = 0; p < model_.parameters.size(); ++p)
      layout.push_back(divergent(static_cast<int>(p)));
    return layout;
  }
  std::vector<bool> read(const Layout& layout) const { return divergent_axes(model_, mesh_, layout); }

  struct Sum {
    std::string stream;
    uint64_t offset, num_elements;
    bool operator==(const Sum&) const = default;
  };
  /// Where the finished step sums squares, in order.
  std::vector<Sum> sums_of_squares(const Layout& layout) const { return sums(mesh_, layout, kSquaresAccumulator); }
  std::vector<Sum> sums(const Mesh& mesh, const Layout& layout, std::string_view accumulator) const {
    Program program = build_program(model_, mesh, mesh.coordinates(0), {}, layout, TSR_PURPOSE_STEP,
                                    [](const tsr_op& op) { return cpu::describe(op); });
    finalize_program(program);
    zero_pads(program);
    const uint64_t buffer = find_buffer(program, TSR_BUFFER_ACCUMULATOR, accumulator);
    std::vector<Sum> sums;
    for (const Action& action : program.actions)
      if (is_collective(action.kind) && action.bindings[0].buffer == buffer)
        sums.push_back(
            {program.streams[action.stream].name, action.bindings[0].offset, action.bindings[0].num_elements});
    return sums;
  }

  Model model_ = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 32},
                           {.batch = 2, .seq = 8, .loss_scale = 1.0 / 128});
  const Mesh mesh_{{{"island", 3, TSR_SPLITS_BATCH}, {"dp", 2, TSR_SPLITS_BATCH}, {"tp", 2, TSR_SPLITS_TENSORS}}};
};

TEST_F(Divergence, IsOfAllTrainableParametersOrNone) {
  EXPECT_EQ(read({}), (std::vector<bool>{false, false, false}));
  Layout layout = all_diverge();
  EXPECT_EQ(read(layout), (std::vector<bool>{true, false, false}));
  layout.pop_back();
  expect_error([&] { read(layout); },
               {"the layout of axis island: 15 of 16 trainable parameters diverge; all must, or none"});
  model_.parameters.back().trainable = false;
  EXPECT_EQ(read(layout), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(read(all_diverge()), (std::vector<bool>{true, false, false})) << "frozen ones may, too";
}

TEST_F(Divergence, IsOfAllRoles) {
  Layout layout = all_diverge();
  layout[0].roles = 1u << TSR_HOME_VALUE;
  expect_error([&] { read(layout); }, {"diverges in some roles; it must diverge in all or none"});
}

TEST_F(Divergence, IsForAxesThatSplitTheBatch) {
  expect_error([&] { read({divergent(0, kTensor)}); },
               {"the layout of axis tp: wte.weight diverges; only an axis that splits the batch may let it"});
}

TEST_F(Divergence, ScalesTheLossForOwnTokens) {
  const double before = model_.segments.back().op.attributes[TSR_ATTR_SCALE];
  scale_loss_of_own_tokens(model_, mesh_, {false, false, false});
  EXPECT_EQ(model_.segments.back().op.attributes[TSR_ATTR_SCALE], before);
  scale_loss_of_own_tokens(model_, mesh_, {true, false, false});
  EXPECT_EQ(model_.segments.back().op.attributes[TSR_ATTR_SCALE], 3 * before);
  scale_loss_of_own_tokens(model_, mesh_, {true, true, false});
  EXPECT_EQ(model_.segments.back().op.attributes[TSR_ATTR_SCALE], 3 * 6 * before);
}

TEST_F(Divergence, NormIsSummedOverTheOtherAxesAndWhatIsNotFiniteAndTheRunWordsOverAll) {
  EXPECT_EQ(sums_of_squares({}), (std::vector<Sum>{{"comm.world.scalars", 0, TSR_SQUARES_WORDS}}));
  const uint64_t limbs = TSR_ACCUMULATOR_LIMBS, words = TSR_SQUARES_WORDS;
  EXPECT_EQ(sums_of_squares(all_diverge()), (std::vector<Sum>{{"comm.world.scalars", 0, 1},
                                                              {"comm.island.scalars", limbs, words - limbs},
                                                              {"comm.dp.scalars", 1, words - 1},
                                                              {"comm.tp.scalars", 1, words - 1}}));
}

TEST_F(Divergence, NothingIsSummedOverAnAxisOfOneRank) {
  const Mesh mesh({{"island", 3, TSR_SPLITS_BATCH}, {"dp", 1, TSR_SPLITS_BATCH}, {"tp", 1, TSR_SPLITS_TENSORS}});
  const uint64_t limbs = TSR_ACCUMULATOR_LIMBS, words = TSR_SQUARES_WORDS;
  EXPECT_EQ(sums(mesh, all_diverge(), kSquaresAccumulator),
            (std::vector<Sum>{{"comm.world.scalars", 0, 1}, {"comm.island.scalars", limbs, words - limbs}}));
  EXPECT_EQ(sums(mesh, {}, kLossAccumulator), (std::vector<Sum>{{"comm.world.scalars", 0, limbs}}));
}

}  // namespace
}  // namespace tessera::testing
