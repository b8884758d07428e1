// What is left when a save is cut off, or when the disk refuses it.
#include <cerrno>

#include <gtest/gtest.h>

#include "e2e/checkpoint_crash.h"

namespace tessera::testing {
namespace {

/// checkpoint_crash_all_test has all calls.
TEST(CheckpointCrash, ARunThatWasKilledWhileItSavedGoesOn) {
  const SavingJob job;
  const int num_calls = job.num_calls();
  ASSERT_GT(num_calls, 30);
  for (int call = 3; call <= num_calls; call += num_calls / 9)
    EXPECT_TRUE(job.expect_same_after_kill(call)) << call << " of " << num_calls;
}

TEST(CheckpointCrash, SoDoRanksThatAreKilledTogether) {
  const SavingJob job(2);
  const int num_calls = job.num_calls();
  for (int call = 5; call <= num_calls; call += num_calls / 4)
    EXPECT_TRUE(job.expect_same_after_kill(call)) << call << " of " << num_calls;
}

/// Checkpoints are written beside the steps, and one of them is the best.
TEST(CheckpointCrash, SoDoesOneThatSavesWhileItTrains) {
  const SavingJob job(1, {"--save-every=2", "--save-async", "--save-best", "--eval-data=" + golden("/tokens.bin"),
                          "--eval-every=1", "--eval-batches=2"});
  const int num_calls = job.num_calls();
  EXPECT_NE(job.best("counted"), "");
  for (int call = 3; call <= num_calls; call += num_calls / 9)
    EXPECT_TRUE(job.expect_same_after_kill(call)) << call << " of " << num_calls;
}

std::vector<nlohmann::json> saves_in(const std::string& metrics) {
  std::vector<nlohmann::json> lines = read_json_lines(metrics);
  std::erase_if(lines, [](const nlohmann::json& line) { return line.value("kind", "") != "save"; });
  return lines;
}

/// The disk is full in the middle of the second save.
TEST(CheckpointCrash, ASaveThatFailsDoesNotEndTheRun) {
  const SavingJob job;
  const int num_calls = job.num_calls();
  const CommandResult run = job.run(
      "full", {{"TESSERA_FAULT_AT", std::to_string(num_calls / 2)}, {"TESSERA_FAULT_ERRNO", std::to_string(ENOSPC)}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("step 4 was not saved: cannot "), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("No space left on device; training continues, and the last checkpoint is of step 2"),
            std::string::npos)
      << run.err;
  EXPECT_FALSE(std::filesystem::exists(job.folder("full/step-00000004")));
  EXPECT_TRUE(job.last_checkpoint("full") == job.last_checkpoint("counted"));
  const auto saves = saves_in(job.metrics("full"));
  ASSERT_EQ(saves.size(), 3u);
  EXPECT_EQ(saves[0].count("error"), 0u);
  EXPECT_NE(saves[1]["error"].get<std::string>().find("No space left"), std::string::npos);
  EXPECT_EQ(saves[1]["bytes"], 0);
  EXPECT_EQ(saves[2]["saved_step"], 6);
}

/// From then on nothing can be written: what was saved before stays, whatever the rank that could not write.
TEST(CheckpointCrash, TheLastGoodCheckpointStays) {
  for (const int num_ranks : {1, 2}) {
    const SavingJob job(num_ranks);
    const CommandResult run = job.run("broken", {{"TESSERA_FAULT_AT", std::to_string(job.num_calls() * 4 / 7)},
                                                 {"TESSERA_FAULT_ERRNO", std::to_string(EIO)},
                                                 {"TESSERA_FAULT_LASTS", "1"}});
    EXPECT_EQ(run.exit_code, 1) << run.err;
    EXPECT_NE(run.err.find("Input/output error; training continues, and the last checkpoint is of step 2"),
              std::string::npos)
        << run.err;
    EXPECT_NE(run.err.find("the checkpoint after the last step, 6, was not written: "), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("not written after step 6; the last good one"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("Input/output error; the last good one is " + job.folder("broken") +
                           "/step-00000002; continue it with --resume " + job.folder("broken")),
              std::string::npos)
        << run.err;
    EXPECT_EQ(file_bytes(job.folder("broken/latest")), "step-00000002\n");
    const CommandResult resumed = job.run("broken");
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("resumed from"), std::string::npos) << resumed.err;
    EXPECT_TRUE(job.last_checkpoint("broken") == job.last_checkpoint("counted"));
  }
}

size_t count(const std::string& text, const std::string& words) {
  size_t number = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++number;
  return number;
}

/// `latest` cannot be replaced: the checkpoints are saved without it, and older ones go.
TEST(CheckpointCrash, ALatestThatCannotBeWrittenIsAWarning) {
  for (const int num_ranks : {1, 2}) {
    const SavingJob job(num_ranks);
    std::filesystem::create_directories(job.folder("run/latest"));
    const CommandResult run = job.run("run");
    expect_message(run, 0, {"give its own folder, as in --resume " + job.folder("run/step-00000002")});
    EXPECT_EQ(count(run.err, job.folder("run/latest") + " cannot be written: cannot rename "), 1u) << run.err;
    EXPECT_EQ(run.err.find("was not saved"), std::string::npos) << run.err;
    for (const auto& [step, is_there] : {std::pair{2, false}, {4, true}, {6, true}})
      EXPECT_EQ(std::filesystem::exists(job.folder("run/step-0000000" + std::to_string(step))), is_there) << step;
    expect_message(run_command(train({"--steps=6", "--resume=" + job.folder("run")})), 0,
                   {"the newest step is taken", "resumed from " + job.folder("run/step-00000006")});
  }
}

TEST(CheckpointCrash, NeitherDoesABestThatCannotBeWrittenFailASave) {
  const SavingJob job(
      1, {"--save-best", "--save-async", "--eval-data=" + golden("/tokens.bin"), "--eval-every=1", "--eval-batches=1"});
  std::filesystem::create_directories(job.folder("run/best"));
  const CommandResult run = job.run("run");
  expect_message(run, 0, {"saved " + job.folder("run/step-00000001")});
  EXPECT_EQ(count(run.err, job.folder("run/best") + " cannot be written: cannot rename "), 1u) << run.err;
  EXPECT_EQ(run.err.find("was not saved"), std::string::npos) << run.err;
  EXPECT_EQ(file_bytes(job.folder("run/latest")), "step-00000006\n");
}

TEST(CheckpointCrash, AFolderThatCannotBeUsedIsRefusedAtTheStart) {
  const SavingJob job;
  const CommandResult run = job.run("no", {{"TESSERA_FAULT_AT", "1"}, {"TESSERA_FAULT_ERRNO", std::to_string(EROFS)}});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("cannot be used: cannot make the folder"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("Read-only file system"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("step    1"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace tessera::testing
