// What ranks that are not walked have of a sum by slices is known only when each rank is checked by itself.
#include <gtest/gtest.h>

#include "compile/compile_homes.h"
#include "plan/verification.h"
#include "support/compiled_job.h"
#include "support/expect_diagnostic.h"
#include "verify/model/verify_homes.h"

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

// Few ranks are each walked at once; of more, one of each class, until that finds a fault.
TEST(WalkedRanks, AreAllOfUpToSixteen) {
  EXPECT_TRUE(two_steps(16, "false", {"--strategy=two-steps"}).diagnostics().empty());
  EXPECT_FALSE(two_steps(17, "false", {"--strategy=two-steps"}).diagnostics().empty());
}

// Two ranks that own each other's slice have the program of the others, one of which is walked for all.
TEST(WalkedRanks, OwnSlicesInOrder) {
  const CompiledJob job({"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1", "--seq-len=8",
                         "--mesh=replicas=2,dp=18", "--strategy=replicas=ddp,dp=fsdp"},
                        36);
  const auto input = job.input();
  HomesCompiler compiler(input);
  std::vector<RankHomes> homes;
  for (int rank = 0; rank < 36; ++rank)
    homes.push_back(compiler.compile(job.job().mesh.coordinates(rank)));
  const auto findings = [&](const RankClasses& walked) {
    DiagnosticList list;
    HomeVerifier(job.job().mesh, [&](int rank) -> const Program& {
      return homes[static_cast<size_t>(rank)].init;
    }).check_order(walked, list);
    return list.take();
  };
  EXPECT_EQ(findings(job.classes()), Diagnostics{});
  std::swap(homes[20].init.homes, homes[21].init.homes);
  EXPECT_TRUE(has_diagnostic(findings(job.classes()), " and 21 own slices of home "));
  EXPECT_EQ(findings(RankClasses(job.job().mesh)), Diagnostics{}) << "each is walked";
  std::swap(homes[20].init.homes, homes[21].init.homes);

  // The pieces of one home in another order.
  for (Home& home : homes[5].init.homes)
    if (home.pieces.size() > 1) {
      std::swap(home.pieces[0].parameter, home.pieces[1].parameter);
      std::swap(home.pieces[0].parameter_offset, home.pieces[1].parameter_offset);
    }
  EXPECT_TRUE(has_diagnostic(findings(job.classes()), " and 5 own slices of home "));
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
