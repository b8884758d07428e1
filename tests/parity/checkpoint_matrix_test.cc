// Saved x loaded, in combinations in which any two ways to split meet; checkpoint_exhaustive_test has all.
#include <gtest/gtest.h>

#include "parity/checkpoint_matrix.h"

namespace tessera::testing {
namespace {

CheckpointMatrix& matrix() {
  static CheckpointMatrix the_matrix(2);
  return the_matrix;
}

Space::Row in_whole_space(const Space& part, const Space::Row& row) {
  Space::Row whole;
  for (size_t i = 0; i < row.size(); ++i)
    whole.push_back(matrix().space().find(part.factors()[i].name, part.factors()[i].values[row[i]]));
  return whole;
}

/// Any two ways to split, any of them with any number of ranks and in any setting; and every other kind with one way to
/// split after it, and one before.
std::vector<Space::Row> rows() {
  std::vector<Space::Row> all;
  const std::vector<std::string>& splits = kinds_of_split();
  const Space two_splits = matrix().space().with("saved", splits).with("loaded", splits);
  for (const Space::Row& row : two_splits.covering_pairs())
    all.push_back(in_whole_space(two_splits, row));
  for (const std::string& kind : other_kinds())
    for (const std::string side : {"saved", "loaded"}) {
      const std::string& split = splits[all.size() % splits.size()];
      const Space part = matrix().space().with(side, {kind}).with(side == "saved" ? "loaded" : "saved", {split});
      const std::vector<Space::Row> choices = part.all();
      all.push_back(in_whole_space(part, choices[all.size() * 37 % choices.size()]));
    }
  return all;
}

class Crossings : public ::testing::TestWithParam<Space::Row> {};

TEST_P(Crossings, GoOnAsTheRunThatWasThereAllAlong) {
  EXPECT_EQ(matrix().check(GetParam()), "") << matrix().space().text(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, Crossings, ::testing::ValuesIn(rows()),
                         [](const auto& test) { return matrix().space().test_name(test.param); });

/// The setting fp16 is about a state with skipped steps and with others.
TEST(CheckpointMatrix, SomeStepsBeforeASaveWereSkipped) {
  const Space one = matrix().space().with("setting", {"fp16"});
  Space::Row row = one.all({"saved", "saved-ranks", "saved-comm", "loaded", "loaded-ranks", "loaded-comm"}).front();
  row.back() = matrix().space().find("setting", "fp16");
  const RunState state = matrix().saved_state(row);
  EXPECT_GT(state.optimizer_step, 0);
  EXPECT_LT(state.optimizer_step, state.step);
  EXPECT_LT(state.loss_scale, 65536);
}

}  // namespace
}  // namespace tessera::testing
