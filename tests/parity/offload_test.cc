// What leaves device memory, when, and for how long changes no bit of a run: losses, norms and final weights are those
// of the same job without offload, on the CPU. The combinations are rows of one table in which any two settings meet.
#include <gtest/gtest.h>

#include <algorithm>

#include "parity/offload_matrix.h"
#include "plan/moved.h"
#include "support/compiled_job.h"

namespace tessera::testing {
namespace {

/// Every setting, in short runs.
OffloadMatrix& short_runs() {
  static OffloadMatrix matrix(offload_space(), 10);
  return matrix;
}
/// Every policy with its options under a few layouts, in long runs.
OffloadMatrix& long_runs() {
  static OffloadMatrix matrix(offload_space()
                                  .with("layout", {"one", "full_shard", "pipeline"})
                                  .with("device", {"cpu"})
                                  .with("comm", {"local"})
                                  .with("debug", {"none"})
                                  .with("reduce-dtype", {"float32"})
                                  .with("reduce-every", {"step"})
                                  .with("freeze", {"none"}),
                              100);
  return matrix;
}

class ShortRuns : public ::testing::TestWithParam<Space::Row> {};
class LongRuns : public ::testing::TestWithParam<Space::Row> {};

TEST_P(ShortRuns, HaveTheBitsWithoutOffload) {
  EXPECT_EQ(short_runs().check(GetParam()), "") << short_runs().space().text(GetParam());
}

TEST_P(LongRuns, HaveTheBitsWithoutOffload) {
  EXPECT_EQ(long_runs().check(GetParam()), "") << long_runs().space().text(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Offload, ShortRuns, ::testing::ValuesIn(short_runs().space().covering_pairs()),
                         [](const auto& test) { return short_runs().space().test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(Offload, LongRuns, ::testing::ValuesIn(long_runs().space().covering_pairs()),
                         [](const auto& test) { return long_runs().space().test_name(test.param); });

/// Whether the rank that moves the most moves anything in a step.
bool moves(const Space& space, const Space::Row& row) {
  std::vector<std::string> flags = job_flags(space, row);
  const std::vector<std::string> policy = offload_flags(space, row);
  flags.insert(flags.end(), policy.begin(), policy.end());
  flags.insert(flags.end(), {"--model=" + golden_folder(), "--batch-size=1", "--seq-len=12"});
  const int num_ranks = num_offload_ranks(space, row);
  const CompiledJob job(flags, num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank)
    if (host::moved_in(job.step(rank)).total().out_bytes > 0) return true;
  return false;
}

// A row in which the policy finds nothing to gain proves nothing, and some are such: two blocks of a stage with a fetch
// three visits ahead. Every value of every factor has one that moves something.
TEST(OffloadMatrix, MovesSomethingUnderEverySetting) {
  const Space& space = short_runs().space();
  std::vector<std::vector<int>> moving(space.factors().size());
  for (size_t f = 0; f < moving.size(); ++f)
    moving[f].resize(space.factors()[f].values.size());
  const auto rows = space.covering_pairs();
  int num_moving = 0;
  for (const Space::Row& row : rows) {
    if (!moves(space, row)) continue;
    ++num_moving;
    for (size_t f = 0; f < row.size(); ++f)
      ++moving[f][row[f]];
  }
  EXPECT_GE(num_moving * 10, static_cast<int>(rows.size()) * 9);
  for (size_t f = 0; f < moving.size(); ++f)
    for (size_t v = 0; v < moving[f].size(); ++v)
      EXPECT_GT(moving[f][v], 0) << space.factors()[f].name << "=" << space.factors()[f].values[v];
}

// Runs in which gradients overflow skip steps and do others, and other arithmetic shows: the comparisons can fail.
TEST(OffloadMatrix, StepsAreSkippedAndArithmeticThatDiffersShows) {
  const OffloadMatrix& matrix = short_runs();
  Space::Row row = matrix.space().covering_pairs().front();
  std::ranges::fill(row, size_t{0});
  const RunResult plain = matrix.run(row, {});
  EXPECT_FALSE(plain.steps[0].evicted_bytes.has_value());
  const RunResult moved = matrix.run(row, offload_flags(matrix.space(), row));
  EXPECT_EQ(first_difference(plain, moved), "");
  EXPECT_GT(moved.steps[0].evicted_bytes.value_or(0), 0);
  EXPECT_EQ(moved.steps[9].fetched_bytes, moved.steps[0].fetched_bytes);
  row[matrix.space().find("clip")] = matrix.space().find("clip", "0.1");
  EXPECT_NE(first_difference(plain, matrix.run(row, {})), "");
  row[matrix.space().find("dtype")] = matrix.space().find("dtype", "fp16");
  const RunResult overflow = matrix.run(row, {});
  const auto num_skipped = std::ranges::count(overflow.steps, false, &StepMetrics::updated);
  EXPECT_GE(num_skipped, 2);
  EXPECT_LE(num_skipped, 8);
}

}  // namespace
}  // namespace tessera::testing
