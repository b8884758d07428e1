// Every layout saves, and every layout goes on for 10 steps with what it has saved; `./dev test --all` runs it. The
// setting and what communicates depend on the sums of the layout that saves and on the one that loads, so that the runs
// that do not load are shared by many combinations.
#include <gtest/gtest.h>

#include <numeric>

#include "parity/checkpoint_matrix.h"

namespace tessera::testing {
namespace {

class Saved : public ::testing::TestWithParam<std::string> {};

/// Values of the factors that go round from one combination to the next.
void settle(const CheckpointMatrix& matrix, Space::Row& row) {
  const Space& space = matrix.space();
  const std::string sums = matrix.sums(row, "saved");
  const auto set = [&](const char* factor, size_t value) {
    Space::Row changed = row;
    changed[space.find(factor)] = value;
    if (!space.allows(changed)) return false;
    row = changed;
    return true;
  };
  const size_t of_sums = std::accumulate(sums.begin(), sums.end(), size_t{0});
  const size_t of_loaded = row[space.find("loaded")] * 5 + row[space.find("loaded-ranks")];
  const size_t num_settings = space.factors()[space.find("setting")].values.size();
  size_t setting = (of_sums + of_loaded) % num_settings;
  while (!set("setting", setting))
    setting = (setting + 1) % num_settings;
  set("loaded-comm", (of_loaded + setting) % 4 == 0);  // gloo, which takes twice as long
  set("saved-comm", (row[space.find("saved")] + setting) % 4 == 0);
}

TEST_P(Saved, IsLoadedUnderEveryLayout) {
  static CheckpointMatrix matrix(10);  // for all kinds
  const Space& space = matrix.space();
  for (Space::Row row : space.all({"saved-comm", "loaded-comm", "setting"})) {
    if (space.value(row, "saved") != GetParam()) continue;
    settle(matrix, row);
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
