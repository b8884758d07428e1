// What ./dev train does after the build: it trains, evaluates, generates text, and shows how to continue.
#include <gtest/gtest.h>

#include <fstream>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

CommandResult first_run(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {source_dir("examples/text/train.sh"), tessera_program()});
  return run_command(flags);
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
}

TEST(FirstRun, EndsWithASampleAndTheCommandToGoOn) {
  const TempFolder folder;
  const std::string save = folder.path("run");
  const CommandResult first =
      first_run({"--steps", "4", "--eval_every=2", "--eval-batches=2", "--batch-size=1", "--save", save});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  expect_part(first.err, "evaluation after step 2: loss ");
  expect_part(first.err, "evaluation after step 4: loss ");
  expect_part(first.err, "bits per byte");
  expect_part(first.err, "tessera generate " + save + " --prompt ROMEO: ");
  EXPECT_EQ(first.out.find("ROMEO:"), 0u) << first.out;
  EXPECT_GT(first.out.size(), 250u);
  expect_part(first.err,
              "to go on: ./dev train --eval_every=2 --eval-batches=2 --batch-size=1 --resume " + save + " --steps 8\n");

  const CommandResult second = first_run({"--resume", save, "--steps=8", "--batch-size=1", "--eval-batches=1"});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  expect_part(second.err, "resumed from " + save + "/step-00000004");
  expect_part(second.err, "done: 8 steps, 4 of them in this run\n");
  expect_part(second.err, "to go on: ./dev train --batch-size=1 --eval-batches=1 --resume " + save + " --steps 16\n");
}

TEST(FirstRun, OnOtherDataIsNotJudgedByShakespeare) {
  const TempFolder folder;
  const CommandResult run = first_run(
      {"--data=" + source_dir("docs"), "--steps=2", "--nproc=1", "--batch-size=1", "--save=" + folder.path("run")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err.find("held-out"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("ROMEO"), std::string::npos) << run.err;
}

// What it says can be pasted into a shell: blanks stay in their words, and the run goes on with the same data.
TEST(FirstRun, GoesOnWithTheFlagsThatWereGiven) {
  const TempFolder folder;
  const std::string text = folder.path("my text.txt"), save = folder.path("my run");
  std::ofstream(text) << std::string(2000, 'x');
  const CommandResult first =
      first_run({"--data", text, "--nproc=1", "--batch-size=1", "--steps", "2", "--save=" + save});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  const std::string start = "to go on: ./dev train ";
  const size_t at = first.err.find(start);
  ASSERT_NE(at, std::string::npos) << first.err;
  std::string line = first.err.substr(at + start.size());
  line = line.substr(0, line.find('\n'));
  EXPECT_EQ(line.find("--save"), std::string::npos) << line;
  const CommandResult second =
      run_command({"/bin/sh", "-c", source_dir("examples/text/train.sh") + " " + tessera_program() + " " + line});
  EXPECT_EQ(second.exit_code, 0) << line << second.err;
  expect_part(second.err, "resumed from " + save + "/step-00000002");
  expect_part(second.err, "my text.txt: text");
  EXPECT_EQ(second.err.find("with other settings: --data"), std::string::npos) << second.err;
}

TEST(FirstRun, SamplesNothingWhereNothingWasTrained) {
  const CommandResult run = first_run({"--print_config"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err.find("tessera generate"), std::string::npos) << run.err;
}

TEST(FirstRun, FailsAsTheTrainingDoes) {
  const CommandResult run = first_run({"--steps=none"});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.err.find("to go on"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace tessera::testing
