// What ranks that are not walked have of a sum by slices is known only when each rank is checked by itself.
#include <gtest/gtest.h>

#include "plan/verification.h"
#include "support/compiled_job.h"

namespace tessera::testing {
namespace {

struct SlicesJob {
  const char* name;
  int num_ranks;
  std::vector<std::string> flags;
};

CompiledJob two_steps(int num_ranks, const std::string& shift, const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1",
                                    "--seq-len=8", "--plugin-dir=" + binary_dir("tests/mutation_strategies"),
                                    "--two-steps.shift=" + shift};
  flags.insert(flags.end(), more.begin(), more.end());
  return CompiledJob(std::move(flags), num_ranks);
}

class Slices : public ::testing::TestWithParam<SlicesJob> {
 protected:
  static CompiledJob compiled(const std::string& shift) {
    return two_steps(GetParam().num_ranks, shift, GetParam().flags);
  }
};

TEST_P(Slices, AreGathered) {
  const CompiledJob job = compiled("false");
  const auto fault = fault_of(job.input(), job.programs());
  EXPECT_FALSE(fault) << fault->what();
}

TEST_P(Slices, AreNotThoseOfOtherRanks) {
  const CompiledJob job = compiled("true");
  EXPECT_TRUE(fault_of(job.input(), job.programs()));
}

// Few ranks are each walked at once, and more of few actions; of the others one of each class, until that finds a
// fault.
TEST(WalkedRanks, AreAllOfUpToSixteenAndOfSmallJobs) {
  const auto is_proved_by_classes = [](const CompiledJob& job) {
    return verify_job(job.input(), job.programs(), 0).empty();
  };
  EXPECT_TRUE(is_proved_by_classes(two_steps(16, "false", {"--strategy=two-steps"})));
  const CompiledJob more = two_steps(17, "false", {"--strategy=two-steps"});
  EXPECT_FALSE(is_proved_by_classes(more));
  EXPECT_TRUE(more.diagnostics().empty());
}

// The last tensor rank has 50,257 rows of the vocabulary less those of the others, and pads its part.
TEST(Homes, OfAPaddedPartAreInTheSamePlaces) {
  const CompiledJob job(
      {"--model=gpt2", "--batch-size=1", "--seq-len=8", "--mesh=dp=4,tp=2", "--strategy=dp=fsdp,tp=tensor"}, 8);
  EXPECT_EQ(job.diagnostics(), Diagnostics{});
}

// A policy moves a gradient of one stage alone: one of the two sums it in a copy that compute has bound, the other one
// in the home.
TEST(Homes, OfATensorRankAreElementsOfItsPartAsOperandsAre) {
  const std::string nano = "--model=" + source_dir("tests/golden/gpt2-nano");
  const auto diagnostics = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {nano, "--batch-size=2", "--seq-len=8"});
    return CompiledJob(std::move(flags), 4).diagnostics();
  };
  EXPECT_EQ(diagnostics({"--mesh=tp=2,pp=2", "--strategy=tp=tensor,pp=pipeline", "--offload=stream",
                         "--stream.linger=3", "--grad-accum=2"}),
            Diagnostics{});
  EXPECT_EQ(diagnostics(
                {"--mesh=tp=2,dp=2", "--strategy=tp=tensor,dp=zero3", "--zero3.stage=1", "--offload=optimizer-state"}),
            Diagnostics{});
}

TEST(EmptySlices, ChangeNothingForAPolicy) {
  const CompiledJob job({"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1", "--seq-len=8",
                         "--plugin-dir=" + binary_dir("tests/mutation_strategies"), "--strategy=two-steps",
                         "--two-steps.to-first=true", "--offload=stream", "--grad-accum=2"},
                        2);
  const RankPrograms first = job.compile(0), last = job.compile(1);
  EXPECT_EQ(print_program(first.steps[0], false), print_program(last.steps[0], false));
}

INSTANTIATE_TEST_SUITE_P(
    All, Slices,
    ::testing::Values(
        SlicesJob{"Few", 5, {"--strategy=two-steps"}}, SlicesJob{"Many", 24, {"--strategy=two-steps"}},
        SlicesJob{"OfEachMicroBatch", 24, {"--strategy=two-steps", "--reduce-every=micro-batch", "--grad-accum=2"}},
        SlicesJob{"InStages", 34, {"--mesh=pp=2,dp=17", "--strategy=pp=pipeline,dp=two-steps"}},
        SlicesJob{"WithAPolicy", 3, {"--strategy=two-steps", "--offload=optimizer-state"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tessera::testing
