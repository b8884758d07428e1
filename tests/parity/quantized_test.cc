// A strategy that compresses gradients, written with the published API alone, is accepted for what it says, trains
// nearly as ddp does, with the same bits everywhere, and composes with other strategies. Programs that say something
// else are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/concat.h"
#include "support/command.h"
#include "support/local_job.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;

const std::string kPluginDir = "--plugin-dir=" + binary_dir("tests/quantized_strategy");

/// Four data ranks' worth of tokens on any mesh.
struct Mesh {
  std::string mesh, strategies;
  int num_ranks, num_data_ranks;
};

Flags flags_of(const Mesh& mesh, const Flags& more) {
  Flags flags = {"--model=" + golden_folder(),
                 "--data=" + golden_folder() + "/tokens.bin",
                 "--batch-size=1",
                 "--seq-len=16",
                 "--steps=20",
                 "--lr=0.003",
                 "--grad-accum=" + std::to_string(12 / mesh.num_data_ranks),
                 "--mesh=" + mesh.mesh,
                 "--strategy=" + mesh.strategies,
                 kPluginDir};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

RunResult train(const Mesh& mesh, const Flags& more = {}, const std::string& comm = "local") {
  return run_local(flags_of(mesh, more), mesh.num_ranks, comm);
}

/// Within 2 % of the loss of exact sums in every step, and in the end far below where it began.
void expect_near(const RunResult& exact, const RunResult& run) {
  EXPECT_EQ(run.num_missing + run.num_contradictions, 0u);
  ASSERT_EQ(run.steps.size(), exact.steps.size());
  for (size_t i = 0; i < run.steps.size(); ++i)
    EXPECT_NEAR(run.steps[i].loss, exact.steps[i].loss, 0.02 * exact.steps[i].loss) << "step " << i;
  EXPECT_LT(run.steps.back().loss, 0.9 * run.steps.front().loss);
  EXPECT_NE(first_difference(exact, run), "") << "nothing was rounded";
}

class Schemes : public ::testing::TestWithParam<const char*> {
 protected:
  Flags scheme() const { return {std::string("--quantized.scheme=") + GetParam(), "--debug-memory"}; }
};

TEST_P(Schemes, TrainOverTwoAndThreeRanks) {
  for (const int num_ranks : {2, 3}) {
    const std::string dp = "dp=" + std::to_string(num_ranks);
    const RunResult exact = train({dp, "dp=ddp", num_ranks, num_ranks});
    const Mesh mesh = {dp, "dp=quantized", num_ranks, num_ranks};
    const RunResult run = train(mesh, scheme());
    expect_near(exact, run);
    EXPECT_EQ(first_difference(run, train(mesh, scheme(), "gloo")), "");
    Flags delayed = scheme(), staged = scheme();
    delayed.push_back("--stream-delay=7");
    EXPECT_EQ(first_difference(run, train(mesh, delayed)), "");
    staged.insert(staged.end(), {"--device=other", "--plugin-dir=" + binary_dir("tests/devices")});
    EXPECT_EQ(first_difference(run, train(mesh, staged)), "");
  }
}

TEST_P(Schemes, ComposeWithOtherStrategies) {
  const RunResult exact = train({"dp=2", "dp=ddp", 2, 2});
  for (const Mesh& mesh :
       {Mesh{"pp=2,dp=2", "pp=pipeline,dp=quantized", 4, 2}, Mesh{"dp=2,shard=2", "dp=quantized,shard=fsdp", 4, 4},
        Mesh{"dp=2,tp=2", "dp=quantized,tp=tensor", 4, 2}, Mesh{"a=2,b=2", "a=quantized,b=ddp", 4, 4},
        Mesh{"pp=2,dp=2,shard=2", "pp=pipeline,dp=quantized,shard=fsdp", 8, 4}}) {
    SCOPED_TRACE(mesh.mesh + " " + mesh.strategies);
    expect_near(exact, train(mesh, scheme()));
  }
}

/// Gradients have the loss scale then, and what they leave has not.
TEST_P(Schemes, TrainInFp16) {
  Flags fp16 = scheme();
  fp16.push_back("--dtype=fp16");
  const Mesh mesh = {"dp=2", "dp=quantized", 2, 2};
  const RunResult run = train(mesh, fp16);
  expect_near(train({"dp=2", "dp=ddp", 2, 2}, {"--dtype=fp16"}), run);
  fp16.insert(fp16.end(), {"--device=other", "--plugin-dir=" + binary_dir("tests/devices")});
  EXPECT_EQ(first_difference(run, train(mesh, fp16)), "");
}

/// Calls run in steps that are skipped, too. With one example of 96 that no gradient survives, the run goes on.
TEST_P(Schemes, LoseNothingInStepsThatAreSkipped) {
  const TempFolder folder;
  std::ofstream examples(folder.path("examples.csv"));
  for (int i = 0; i < 96; ++i)
    examples << (i == 50 ? "65000,65000,65000" : concat(i % 7, ",", i % 5, ",", i % 3)) << "," << i % 3 << "\n";
  examples.close();
  const auto run_under = [&](const std::string& strategy, const Flags& more) {
    Flags flags = {"--model=mlp:3,64,64,3",
                   "--data=" + folder.path("examples.csv"),
                   "--data-scale=none",
                   "--batch-size=12",
                   "--steps=12",
                   "--dtype=fp16",
                   "--strategy=" + strategy,
                   kPluginDir};
    flags.insert(flags.end(), more.begin(), more.end());
    return run_local(flags, 2, "local");
  };
  const RunResult exact = run_under("ddp", {}), run = run_under("quantized", scheme());
  ASSERT_EQ(run.steps.size(), exact.steps.size());
  int num_skipped = 0;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const bool is_skipped = !std::isfinite(exact.steps[i].grad_norm);
    num_skipped += is_skipped ? 1 : 0;
    EXPECT_EQ(!std::isfinite(run.steps[i].grad_norm), is_skipped) << "step " << i;
    if (!is_skipped) {
      EXPECT_NEAR(run.steps[i].loss, exact.steps[i].loss, 0.02 * exact.steps[i].loss) << "step " << i;
    }
  }
  EXPECT_GT(num_skipped, 0);
  EXPECT_LT(num_skipped, 6);
}

INSTANTIATE_TEST_SUITE_P(Of, Schemes, ::testing::Values("gather", "sum"),
                         [](const auto& test) { return std::string(test.param); });

// ---- what `plan` says ----------------------------------------------------------------------------------------------

CommandResult plan(const std::string& mesh, const std::string& strategies, const Flags& more) {
  Flags argv = {tessera_program(),
                "plan",
                "--model=" + golden_folder(),
                "--batch-size=1",
                "--seq-len=8",
                "--grad-accum=4",
                "--verify",
                "--mesh=" + mesh,
                kPluginDir,
                "--strategy=" + strategies};
  argv.insert(argv.end(), more.begin(), more.end());
  return run_command(argv);
}

TEST(Quantized, IsProved) {
  for (const char* scheme : {"--quantized.scheme=gather", "--quantized.scheme=sum"}) {
    const CommandResult run = plan("pp=2,dp=3", "pp=pipeline,dp=quantized", {scheme});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_NE(run.out.find("proved"), std::string::npos) << run.out;
  }
}

void expect_refused(const CommandResult& run, const std::string& reason) {
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_EQ(run.out.find("proved"), std::string::npos) << run.out;
  EXPECT_NE(run.err.find(reason), std::string::npos) << run.err;
}

CommandResult plan_fault(const std::string& fault, const std::string& scheme = "gather") {
  return plan("dp=4", "quantized", {"--quantized.fault=" + fault, "--quantized.scheme=" + scheme});
}

const char* const kOnlyACall = "only a call of quantized with reduce and group makes the sum of it";

TEST(Quantized, CodesThatACollectiveSums) {
  const CommandResult run = plan_fault("summed");
  expect_refused(run, "all_reduce codes takes dst0 = plugin codes, which is an encoded addend of the sum over dp");
  expect_refused(run, kOnlyACall);
  expect_refused(plan_fault("summed", "sum"),
                 "all_reduce bounds takes dst0 = plugin bounds, which is an encoded addend");
}

TEST(Quantized, CodesThatNobodyGathered) {
  expect_refused(plan_fault("forgotten-gather"),
                 "takes src1 = plugin scales, which is an encoded addend of the sum over dp: it was not gathered from "
                 "the other ranks");
}

TEST(Quantized, CodesThatAreDecodedOverAnotherGroup) {
  expect_refused(plan_fault("other-group"),
                 "which is the encoded addends of all ranks of dp: it came from dp, and the call is for dp {0,1}");
}

TEST(Quantized, CodesOfAnotherEncoding) {
  expect_refused(plan_fault("other-code"), "they are code 1, and the call takes code 2");
}

TEST(Quantized, ACallThatDoesNotSayWhatItMakes) {
  const CommandResult run = plan_fault("undeclared");
  expect_refused(run, "sum_squares wte.weight takes src0 = gradient");
  expect_refused(run, "which is the encoded addends of all ranks of dp");
  expect_refused(plan_fault("undeclared", "sum"),
                 "all_reduce codes takes dst0 = plugin codes, which is an encoded addend");
}

TEST(Quantized, GradientsThatAreNeverDecoded) {
  expect_refused(plan_fault("undecoded"), "which is an unreduced partial sum over dp");
}

TEST(Quantized, AddendsOfAnOuterAxis) {
  expect_refused(
      plan("a=2,b=2", "a=ddp,b=quantized", {}),
      "which is an unreduced partial sum over a: a call on another axis needs the sum; inner axes are summed "
      "first, so give its strategy the outermost one");
}

TEST(Quantized, ACallThatFailsWithoutAMessage) {
  Flags argv = flags_of({"dp=2", "dp=quantized", 2, 2}, {"--nproc=2", "--comm=local", "--quantized.fault=silent"});
  argv.insert(argv.begin(), {tessera_program(), "train"});
  expect_refused(run_command(argv), "in its function call failed with status -");
  expect_refused(run_command(argv), " and gave no message");
}

TEST(Quantized, AGradientThatIsNotSummedOverItsStages) {
  const CommandResult run = plan("pp=2,dp=2", "pp=pipeline,dp=quantized", {"--quantized.fault=incomplete"});
  expect_refused(run, "the ranks list shared collectives in different orders");
  expect_refused(run, "comm.pp.completion all_reduce wte.weight -> waits for rank");
}

}  // namespace
}  // namespace tessera::testing
