// Strategies that load, and are wrong: the run stops before step 1 and says which one and why.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/command.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

CommandResult train(const std::string& strategy, const std::string& comm = "local",
                    const std::vector<std::string>& more = {}) {
  const std::string golden = source_dir("tests/golden/gpt2-nano");
  std::vector<std::string> words = {tessera_program(),
                                    "train",
                                    "--model=" + golden,
                                    "--data=" + golden + "/tokens.bin",
                                    "--batch-size=1",
                                    "--seq-len=8",
                                    "--steps=1",
                                    "--nproc=2",
                                    "--comm=" + comm,
                                    "--threads=1",
                                    "--plugin-dir=" + binary_dir("tests/bad_strategies"),
                                    "--strategy=" + strategy};
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

void expect_refusal(const CommandResult& run, const std::string& reason) {
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find(reason), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("tok/s"), std::string::npos) << "it trained:\n" << run.err;
}

TEST(BadStrategy, OneThatIsNotPureIsNamed) {
  const CommandResult run = train("impure");
  expect_refusal(run, "a strategy (impure) is not pure");
  EXPECT_NE(run.err.find("barrier"), std::string::npos) << "the line that differs is missing:\n" << run.err;
}

TEST(BadStrategy, OneThatHidesThatItDependsOnItsCoordinateIsNamed) {
  const CommandResult run = train("secretive");
  expect_refusal(run, "rank 1 has another program than rank 0 (line ");
  EXPECT_NE(run.err.find("under strategy secretive"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("barrier"), std::string::npos) << "the line that differs is missing:\n" << run.err;
}

// The text of its program is the same.
TEST(BadStrategy, OneWhoseHomesOrLayoutDifferOnARankIsNamed) {
  for (const auto& [fault, text] : {std::pair("homes", "rank 1 has other homes (their pieces, roles or buffers) than"),
                                    std::pair("layout", "rank 1 declares another layout than rank 0 did for it")}) {
    const CommandResult run = train("inconsistent", "gloo", {std::string("--inconsistent.fault=") + fault});
    expect_refusal(run, text);
    EXPECT_NE(run.err.find("a strategy (inconsistent) is not pure"), std::string::npos) << run.err;
  }
}

TEST(BadStrategy, OneThatForgetsItsSumIsFound) {
  const CommandResult run = train("forgetful");
  expect_refusal(run, "which is an unreduced partial sum over dp");
  EXPECT_NE(run.err.find("the step program under strategy forgetful on axis dp is wrong:"), std::string::npos)
      << run.err;
}

TEST(BadStrategy, OneThatSpeaksOfAnotherAxisIsNamed) {
  const CommandResult run = train("meddler");
  EXPECT_EQ(run.exit_code, 2);  // what a strategy refuses and what is refused of it look alike
  EXPECT_NE(run.err.find("strategy meddler on axis dp: [meddler] [host] a layout entry is for axis"), std::string::npos)
      << run.err;
}

// ---- what `plan` refuses of meshes of several axes -----------------------------------------------------------------

CommandResult plan(const std::string& mesh, const std::string& strategies, const std::string& option = "",
                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags = {tessera_program(),
                                    "plan",
                                    "--model=" + source_dir("tests/golden/gpt2-nano"),
                                    "--batch-size=1",
                                    "--seq-len=8",
                                    "--grad-accum=4",
                                    "--verify",
                                    "--mesh=" + mesh,
                                    "--plugin-dir=" + binary_dir("tests/bad_strategies"),
                                    "--strategy=" + strategies};
  if (!option.empty()) flags.push_back(option);
  flags.insert(flags.end(), more.begin(), more.end());
  return run_command(flags);
}

void expect_refuted(const CommandResult& run, const std::vector<std::string>& reasons, int exit_code = 1) {
  EXPECT_EQ(run.exit_code, exit_code) << run.out;
  EXPECT_EQ(run.out.find("proved"), std::string::npos) << run.out;
  for (const std::string& reason : reasons)
    EXPECT_NE(run.err.find(reason), std::string::npos) << reason << " is missing in\n" << run.err;
}

/// Two chunks a stage, whose activations and gradients need lanes of their own.
const std::vector<std::string> kInterleaved = {"--faulty-pipeline.schedule=interleaved_1f1b",
                                               "--faulty-pipeline.virtual-stages=2"};

TEST(BadStrategy, AStageThatForgetsASend) {
  const CommandResult run = plan("pp=2", "pp=faulty-pipeline", "--faulty-pipeline.fault=forgotten-send");
  expect_refuted(run, {"rank 0 sends 3 messages to rank 1 on comm.pp.activation_0, which receives 4; the first extra "
                       "is rank 1 #",
                       " recv "});
}

TEST(BadStrategy, AStageThatSendsInAnotherOrder) {
  const CommandResult run = plan("pp=2", "pp=faulty-pipeline", "--faulty-pipeline.fault=swapped-sends");
  expect_refuted(run, {"message 0 on comm.pp.activation_0 does not match: rank 0 #", " meets rank 1 #", "tag="});
}

TEST(BadStrategy, AScheduleWithACycleOnItsOneLane) {
  const CommandResult run = plan("pp=2", "pp=faulty-pipeline", "--faulty-pipeline.fault=one-lane", kInterleaved);
  expect_refuted(run, {"deadlock: rank ", "comm.pp.all send", "waits for rank 0 #", "waits for rank 1 #"});
}

TEST(BadStrategy, FaultsOfStagesAreFoundUnderOtherAxesToo) {
  const CommandResult run =
      plan("pp=2,dp=2,tp=2", "pp=faulty-pipeline,dp=fsdp,tp=tensor", "--faulty-pipeline.fault=one-lane", kInterleaved);
  expect_refuted(run, {"the ranks' programs under strategies faulty-pipeline on axis pp, fsdp on axis dp and tensor on "
                       "axis tp do not fit one another or the model:",
                       "deadlock: rank ", "waits for rank 0 #", "waits for rank 4 #"});
}

TEST(BadStrategy, ATensorPassThatForgetsTheSumOfTheEmbedding) {
  expect_refuted(plan("dp=2,tp=2", "dp=ddp,tp=faulty-tensor"), {"rank 0 #", "an unreduced partial sum over tp"});
}

TEST(BadStrategy, SumsOverTheRanksOfAnotherAxis) {
  expect_refuted(plan("dp=2,tp=2", "dp=wrong-group,tp=tensor"),
                 {"rank 0 #", "all_reduce", "is for group tp, but its stream is for another axis"});
}

TEST(BadStrategy, SumsOverHalfOfItsAxis) {
  expect_refuted(plan("dp=4", "dp=wrong-group", "--wrong-group.group=own-half"),
                 {"rank 0 #", "is for dp {0,1} only, but the other ranks of dp hold a part of its operand too"});
}

TEST(BadStrategy, SumsWhereARankIsNoMember) {
  expect_refuted(plan("dp=4", "dp=wrong-group", "--wrong-group.group=second-half"),
                 {"strategy wrong-group on axis dp", "is for group dp {2,3}, and coordinate 0 of this rank is outside"},
                 2);
}

// ---- homes of ranks that another rank is planned for ---------------------------------------------------------------

CommandResult plan_inconsistent(const std::string& mesh, const std::string& fault) {
  return plan(mesh, "dp=inconsistent", "--inconsistent.fault=" + fault);
}

// More ranks than are compiled by themselves once something is found.
TEST(BadStrategy, OneWhosePiecesDifferWhereTheLayoutSplitsNothing) {
  expect_refuted(plan_inconsistent("dp=257", "pieces"),
                 {"rank 1 keeps ", " in another place of its homes than rank 0, whose program it has"});
}

TEST(BadStrategy, OneWhoseProgramOrLayoutDiffersOnAnotherRank) {
  for (const char* mesh : {"dp=2", "dp=20"})
    expect_refuted(plan(mesh, "dp=secretive"),
                   {"strategy secretive on axis dp", "rank 1 has another program than rank 0", "barrier",
                    "hides that it depends on its coordinate"});
  expect_refuted(plan_inconsistent("dp=2", "hidden-layout"), {"rank 1 has another layout than rank 0"});
}

TEST(BadStrategy, OneWhoseHomesDifferInItsLaterPrograms) {
  for (const char* mesh : {"dp=2", "dp=20"})
    expect_refuted(plan_inconsistent(mesh, "later-pieces"),
                   {"rank 1: its step program has other homes than the init program"});
  expect_refuted(plan_inconsistent("dp=2", "own-layout"), {"rank 1: ", "has another layout than the init program"});
  expect_refuted(plan_inconsistent("dp=2", "later-roles"),
                 {"rank 1 has its homes (their roles, buffers or lengths) in other places than rank 0"});
}

// ---- what looks right, and computes, saves or leaves to the next step something else --------------------------------

struct Deception {
  const char* fault;
  const char* reason;
  int exit_code = 1;
  std::vector<std::string> more = {};
};
class Deceptions : public ::testing::TestWithParam<Deception> {};

TEST_P(Deceptions, AreRefused) {
  expect_refuted(plan("dp=2", "dp=deceptive", std::string("--deceptive.fault=") + GetParam().fault, GetParam().more),
                 {"deceptive", GetParam().reason}, GetParam().exit_code);
}

const Deception kDeceptions[] = {
    {"received-sum", "which is sent by other ranks: each rank would add it, and addends are not sent"},
    {"master", "which holds zeros; the model needs "},
    {"state", "no home has it as its value, master or state of the optimizer: no checkpoint would hold it", 2},
    {"unit", "a home is of unit 999; the model has ", 2},
    {"init-call", "which the next step reads; outside of steps a call writes what is its strategy's own"},
    {"init-sum", "which is the same on all ranks of dp: its sum over the axis has no meaning"},
    {"padding", "holds what a strategy made; the model needs zeros"},
    {"workspace", "broadcast binds a workspace; the host gives collectives what their communicator asks for", 2},
    {"run-words", "after the program accumulator squares[20:24] holds "},
    {"second-moment", ", but ranks 0 and 1 both own its elements 0 to "},
    {"coordinates", "a layout entry must list ascending coordinates of dp, from 0 to 1", 2},
    {"scaled-average", ", updated, scaled by 3; the model needs "},
    {"thirds", "by 3, which rounds; powers of two do not"},
    {"lost-bits", "values of float32 are lost beyond 2^-20 and 2^20"},
    {"wide", " in f64; gradients are summed in f32 or the job's --reduce-dtype"},
    {"wide-to-narrow", " binds dst0 to f32; the device's op has f64"},
    {"reversed", "which holds that of mb=3 already; micro-batches are added in ascending order"},
    {"each", "this job sums over them once a step (--reduce-every)"},
    {"half", "their sum is rounded, once", 1, {"--reduce-dtype=bf16"}}};
INSTANTIATE_TEST_SUITE_P(All, Deceptions, ::testing::ValuesIn(kDeceptions), [](const auto& test) {
  std::string name = test.param.fault;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(Deceptive, WithoutAFaultIsProved) {
  const CommandResult run = plan("dp=2", "dp=deceptive", "--deceptive.fault=master-copied");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("proved for 2 ranks"), std::string::npos) << run.out;
}

}  // namespace
}  // namespace tessera::testing
