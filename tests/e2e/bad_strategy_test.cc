// Strategies that load, and are wrong: the run stops before step 1 and says which one and why.
#include <gtest/gtest.h>

#include "support/command.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

CommandResult train(const std::string& strategy) {
  const std::string golden = source_dir("tests/golden/gpt2-nano");
  return run_command({TESSERA_PROGRAM, "train", "--model=" + golden, "--data=" + golden + "/tokens.bin",
                      "--batch-size=1", "--seq-len=8", "--steps=1", "--nproc=2", "--comm=local", "--threads=1",
                      "--plugin-dir=" TESSERA_BAD_STRATEGIES, "--strategy=" + strategy});
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
  expect_refusal(run, "rank 1 plans another program than rank 0 planned for it");
  EXPECT_NE(run.err.find("(secretive)"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("barrier"), std::string::npos) << "the line that differs is missing:\n" << run.err;
}

TEST(BadStrategy, OneThatForgetsItsSumIsFound) {
  expect_refusal(train("forgetful"), "which is a sum over dp that nothing has taken yet");
}

TEST(BadStrategy, OneThatSpeaksOfAnotherAxisIsNamed) {
  expect_refusal(train("meddler"),
                 "strategy meddler on axis dp: [meddler] [host] a layout may only speak of its own axis");
}

}  // namespace
}  // namespace tessera::testing
