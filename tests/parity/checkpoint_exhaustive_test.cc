// Every layout saves, and every layout goes on for 10 steps with what it has saved; `./dev test --all` runs it.
// Settings and communicators go round from one combination to the next.
#include <gtest/gtest.h>

#include "parity/checkpoint_matrix.h"

namespace tessera::testing {
namespace {

class Saved : public ::testing::TestWithParam<std::string> {};

TEST_P(Saved, IsLoadedUnderEveryLayout) {
  static CheckpointMatrix matrix(10);  // for all kinds, so that runs that never stop are run once
  const Space& space = matrix.space();
  size_t turn = 0;
  for (Space::Row row : space.all({"saved-comm", "loaded-comm", "setting"})) {
    if (space.value(row, "saved") != GetParam()) continue;
    for (const char* factor : {"setting", "saved-comm", "loaded-comm"}) {
      Space::Row changed = row;
      changed[space.find(factor)] = turn++ % space.factors()[space.find(factor)].values.size();
      if (space.allows(changed)) row = changed;
    }
    EXPECT_EQ(matrix.check(row), "") << space.text(row);
  }
}

std::vector<std::string> all_kinds() {
  std::vector<std::string> all = kinds_of_split();
  all.insert(all.end(), other_kinds().begin(), other_kinds().end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(CheckpointMatrix, Saved, ::testing::ValuesIn(all_kinds()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::testing
