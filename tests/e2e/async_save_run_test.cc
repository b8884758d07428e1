// --save-async as a user sees it: steps do not wait for the disk, and whatever a run ends with, it has its checkpoints.
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/index_text.h"
#include "checkpoint/save_folder.h"
#include "e2e/checkpoint_crash.h"
#include "e2e/wide_model.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Flags = std::vector<std::string>;

std::vector<nlohmann::json> saves_in(const std::string& metrics) {
  std::vector<nlohmann::json> lines = read_json_lines(metrics);
  std::erase_if(lines, [](const nlohmann::json& line) { return line.value("kind", "") != "save"; });
  return lines;
}

size_t count(const std::string& text, const std::string& words) {
  size_t number = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++number;
  return number;
}

constexpr int64_t kSlowMs = 150;  // of each sync of the disk; each checkpoint has six or more

std::map<std::string, std::string> slow_disk(int64_t sync_ms) {
  return {{"TESSERA_FAULT_SLOW_MS", std::to_string(sync_ms)}};
}

TEST(AsyncSaveRun, StepsDoNotWaitForTheDisk) {
  with_short_time(kSlowMs, [](int64_t sync_ms) {
    const SavingJob job(1, {"--save-async", "--save-every=5"});
    const CommandResult run = job.run("run", slow_disk(sync_ms));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto saves = saves_in(job.metrics("run"));
    ASSERT_EQ(saves.size(), 2u);
    EXPECT_EQ(saves[0]["saved_step"], 5);
    EXPECT_GE(saves[0]["save_ms"], 4 * sync_ms);
    EXPECT_LT(saves[0]["pause_ms"].get<double>(), saves[0]["save_ms"].get<double>() / 3);
    EXPECT_EQ(saves[1]["pause_ms"], saves[1]["save_ms"]);  // after the last step there is nothing else to do
    EXPECT_NE(run.err.find(" of host memory for the copy of the state that is written while steps run"),
              std::string::npos)
        << run.err;
    EXPECT_NE(run.err.find(" ms, of which steps waited "), std::string::npos) << run.err;
  });
}

TEST(AsyncSaveRun, ASaveWaitsForTheOneBeforeItAndSaysSoOnce) {
  with_short_time(kSlowMs, [](int64_t sync_ms) {
    const SavingJob job(2, {"--save-async", "--save-every=1"});
    const CommandResult run = job.run("run", slow_disk(sync_ms));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(count(run.err, "the checkpoint of step 1 is still being written, and the one of step 2 is due"), 1u);
    EXPECT_EQ(count(run.err, "is still being written"), 1u) << run.err;
    EXPECT_EQ(saves_in(job.metrics("run")).size(), 6u);
  });
}

TEST(AsyncSaveRun, AFullDiskIsAWarning) {
  const SavingJob job(1, {"--save-async", "--save-every=2"});
  const int num_calls = job.num_calls();
  const CommandResult run = job.run(
      "full", {{"TESSERA_FAULT_AT", std::to_string(num_calls / 2)}, {"TESSERA_FAULT_ERRNO", std::to_string(ENOSPC)}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("step 4 was not saved: cannot "), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("No space left on device; training continues, and the last checkpoint is of step 2"),
            std::string::npos)
      << run.err;
  EXPECT_FALSE(fs::exists(job.folder("full/step-00000004")));
  EXPECT_TRUE(job.last_checkpoint("full") == job.last_checkpoint("counted"));
}

/// After the first update a parameter is not finite, which the second step finds out.
TEST(AsyncSaveRun, ParametersThatAreLostAreNotSaved) {
  const TempFolder folder;
  const Flags job = {"train",
                     "--model",
                     golden(),
                     "--data",
                     golden("/tokens.bin"),
                     "--batch-size=1",
                     "--seq-len",
                     "32",
                     "--lr",
                     "1e38",
                     "--clip=0",
                     "--threads=1",
                     "--nproc=2",
                     "--save-async",
                     "--steps",
                     "6",
                     "--strategy=fsdp",
                     "--comm=local",
                     "--save",
                     folder.path(),
                     "--save-every=1"};
  const CommandResult run = run_command(tessera(job));
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_NE(run.err.find("step 1 was not saved: rank 0: an element of h.0.attn.c_attn.bias is not finite"),
            std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find("the run is lost"), std::string::npos) << run.err;
  EXPECT_TRUE(host::saved_steps(folder.path()).empty());
}

/// In step 5 weight decay makes some of the positions infinite, those among them that no token reads; not the last one.
TEST(AsyncSaveRun, ParametersOfWhichSomeAreLostAreNotSaved) {
  const TempFolder folder;
  const CommandResult run = run_command(train({"--steps=40", "--weight-decay=4e10", "--freeze=h.*,ln_f*,wte*",
                                               "--save-every=1", "--save-async", "--save=" + folder.path()}));
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_NE(run.err.find("step 5 was not saved: an element of wpe.weight is not finite"), std::string::npos) << run.err;
  EXPECT_EQ(file_bytes(folder.path("latest")), "step-00000004\n");
}

/// One process a rank: the threads of a save meet in the job's store beside the control threads.
TEST(AsyncSaveRun, ProcessesHaveTheFilesOfASaveThatStepsWaitFor) {
  for (const char* comm : {"gloo", "local"}) {
    const TempFolder folder;
    for (const char* name : {"waits", "runs"}) {
      Flags flags = {"--steps=6",
                     "--nproc=2",
                     "--strategy=zero3",
                     "--save-every=1",
                     "--keep=0",
                     "--save=" + folder.path(name),
                     std::string("--comm=") + comm};
      if (name == std::string("runs")) flags.push_back("--save-async");
      const CommandResult run = run_command(train(flags));
      ASSERT_EQ(run.exit_code, 0) << run.err;
    }
    for (int step = 1; step <= 6; ++step)
      for (const char* file : {"index.json", "rank-00000.safetensors", "rank-00001.safetensors"}) {
        const std::string name = "/" + host::step_folder_name(step) + "/" + file;
        EXPECT_TRUE(file_bytes(folder.path("waits") + name) == file_bytes(folder.path("runs") + name)) << name;
      }
  }
}

/// The index has the checksum of every block.
TEST(AsyncSaveRun, ATensorOfSeveralPiecesHasTheBytesOfASaveThatStepsWaitFor) {
  const TempFolder folder;
  const std::string model = write_wide_model(folder);
  const auto index = [&](const std::string& name, Flags more) {
    more.insert(more.end(), {"--steps=2", "--save-every=1", "--save=" + folder.path(name)});
    const CommandResult run = run_command(train_wide_model(model, more));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return file_bytes(folder.path(name + "/step-00000001/index.json"));
  };
  EXPECT_EQ(index("waits", {}), index("runs", {"--save-async"}));
}

TEST(AsyncSaveRun, TheCopyCountsAsHostMemory) {
  const TempFolder folder;
  const Flags flags = {"--steps=1", "--save-async", "--save=" + folder.path("run")};
  const CommandResult without =
      run_command(train({"--steps=1", "--host-memory=1000KiB", "--save=" + folder.path("run")}));
  expect_message(without, 2,
                 {"--host-memory has no effect without --offload or --save-async; add one of them, or leave this out"});
  Flags little = flags, enough = flags;
  little.push_back("--host-memory=1000KiB");
  enough.push_back("--host-memory=1500KiB");
  Flags planned = train(little);
  planned.at(1) = "plan";
  for (const Flags& words : {train(little), planned}) {
    const CommandResult refused = run_command(words);
    const std::string before = "raise --host-memory, or leave --save-async out:\n    tessera ";
    expect_message(
        refused, 1,
        {"the run does not fit --host-memory 1000.0 KiB: rank 0 needs 1.4 MiB, 1.4 MiB of it for the copy of "
         "its state that --save-async writes; " +
         before + "train "});
    std::string offered = refused.err.substr(refused.err.find(before) + before.size());
    offered = tessera_program() + " " + offered.substr(0, offered.find('\n'));
    expect_message(run_command({"/bin/sh", "-c", offered}), 0, {"done: 1 step"});
    std::filesystem::remove_all(folder.path("run"));
  }
  EXPECT_EQ(run_command(train(enough)).exit_code, 0);
  expect_message(run_command(train({"--steps=1", "--save-async", "--save=" + folder.path("stages"), "--mesh=pp=2",
                                    "--strategy=pp=pipeline", "--pipeline.cut=h.1.ln_1", "--host-memory=800KiB"})),
                 1, {"the run does not fit --host-memory 800.0 KiB: rank 1 needs "});
}

/// By the evaluations that the metrics list.
int64_t step_of_least_loss(const std::string& metrics) {
  int64_t best = 0;
  double least = INFINITY;
  for (const nlohmann::json& line : read_json_lines(metrics))
    if (line.value("kind", "") == "eval" && line["loss"].get<double>() < least) {
      least = line["loss"];
      best = line["after_step"];
    }
  return best;
}

class SaveBest : public ::testing::TestWithParam<const char*> {
 protected:
  /// A rate at which the loss goes up and down.
  CommandResult run(const Flags& more, const std::string& steps = "--steps=12",
                    const std::map<std::string, std::string>& environment = {}) const {
    Flags flags = {"train",
                   "--model",
                   golden(),
                   "--data",
                   golden("/tokens.bin"),
                   "--eval-data",
                   eval_data_,
                   "--batch-size=1",
                   "--seq-len=32",
                   "--lr=0.05",
                   "--threads=1",
                   steps,
                   "--eval-every=1",
                   "--eval-batches=2",
                   "--keep=1",
                   "--save-best",
                   "--save=" + save(),
                   "--metrics=" + metrics()};
    if (*GetParam()) flags.push_back(GetParam());
    flags.insert(flags.end(), more.begin(), more.end());
    return run_command(tessera(flags), environment);
  }
  std::string save() const { return folder_.path("run"); }
  std::string metrics() const { return folder_.path("metrics"); }
  std::string best() const { return file_bytes(save() + "/best"); }
  std::string other_data() const { return folder_.path("other.bin"); }

  std::string eval_data_ = golden("/tokens.bin");

 private:
  const TempFolder folder_;
};

TEST_P(SaveBest, TheBestIsNamedAndStays) {
  const CommandResult result = run({"--nproc=2", "--strategy=fsdp", "--comm=local"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const int64_t least = step_of_least_loss(metrics());
  ASSERT_LT(least, 12) << "the rate is too low for this test";
  EXPECT_EQ(best(), host::step_folder_name(least) + "\n");
  EXPECT_EQ(host::saved_steps(save()), (std::vector<int64_t>{least, 12}));
  const host::RunState state = host::Checkpoint(save() + "/step-00000012").index().state;
  EXPECT_EQ(state.best_step, least);
  EXPECT_TRUE(std::isfinite(state.best_loss));
}

TEST_P(SaveBest, IsNotComparedWithALossOfOtherData) {
  ASSERT_EQ(run({}, "--steps=3").exit_code, 0);
  const std::string tokens = file_bytes(golden("/tokens.bin"));
  std::ofstream(other_data(), std::ios::binary) << tokens.substr(tokens.size() / 2 / 4 * 4);
  eval_data_ = other_data();
  const CommandResult part = run({"--resume=" + save()}, "--steps=4");
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_NE(part.err.find(": --save-best begins anew"), std::string::npos) << part.err;
  EXPECT_EQ(best(), "step-00000004\n") << "the first of its data, whatever its loss";
  const CommandResult same = run({"--resume=" + save()}, "--steps=5");
  EXPECT_EQ(same.err.find("begins anew"), std::string::npos) << same.err;
}

/// A loss of an older checkpoint stays one of which that is not known.
TEST_P(SaveBest, ClaimsNothingOfALossFromBefore) {
  ASSERT_EQ(run({}, "--steps=3").exit_code, 0);
  host::CheckpointIndex index = host::Checkpoint(save() + "/step-00000003").index();
  index.state.best_of = "";
  index.state.best_loss = 0;  // no other is as low
  std::ofstream(save() + "/step-00000003/index.json", std::ios::binary) << host::print_index(index);
  const CommandResult part = run({"--resume=" + save()}, "--steps=4");
  ASSERT_EQ(part.exit_code, 0) << part.err;
  const host::RunState state = host::Checkpoint(save() + "/step-00000004").index().state;
  EXPECT_EQ(state.best_loss, 0);
  EXPECT_EQ(state.best_of, "");
}

/// The run that goes on knows what was best before; `best` is a name like that of a folder.
TEST_P(SaveBest, IsKeptByARunThatGoesOn) {
  ASSERT_EQ(run({}).exit_code, 0);
  const std::string whole = best();
  const std::vector<int64_t> steps = host::saved_steps(save());
  fs::remove_all(save());
  fs::remove(metrics());
  for (const char* until : {"--steps=3", "--steps=7", "--steps=12"}) {
    const CommandResult part = run({"--resume=" + save()}, until);
    ASSERT_EQ(part.exit_code, 0) << part.err;
    const int64_t so_far = host::Checkpoint(save() + "/" + host::step_folder_name(host::saved_steps(save()).back()))
                               .index()
                               .state.best_step;
    EXPECT_NE(part.err.find(" at best, after step " + std::to_string(so_far)), std::string::npos) << part.err;
  }
  EXPECT_EQ(best(), whole);
  const CommandResult shown = run_command(tessera({"inspect", save() + "/best"}));
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find(whole.substr(0, whole.size() - 1)), std::string::npos) << shown.out;
  const CommandResult from = run_command(train({"--steps=1", "--init-from=" + save() + "/best"}));
  EXPECT_EQ(from.exit_code, 0) << from.err;
  EXPECT_NE(from.err.find("parameters: from " + save() + "/" + whole.substr(0, whole.size() - 1)), std::string::npos)
      << from.err;
}

/// The loss after step 1 is the least, but its checkpoint is not there.
TEST_P(SaveBest, IsNoneThatWasNotSaved) {
  const TempFolder counts;
  std::map<std::string, std::string> faults = {{"LD_PRELOAD", binary_dir("tests/e2e/libtessera_save_faults.so")},
                                               {"TESSERA_FAULT_FOLDER", save()},
                                               {"TESSERA_FAULT_COUNT", counts.path("1")}};
  ASSERT_EQ(run({}, "--steps=1", faults).exit_code, 0);
  fs::remove_all(save());
  fs::remove(metrics());
  faults["TESSERA_FAULT_COUNT"] = counts.path("3");
  faults["TESSERA_FAULT_AT"] = std::to_string(std::stoi(file_bytes(counts.path("1"))) / 2);
  faults["TESSERA_FAULT_ERRNO"] = std::to_string(ENOSPC);
  const CommandResult result = run({}, "--steps=3", faults);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("step 1 was not saved: cannot "), std::string::npos) << result.err;
  ASSERT_EQ(step_of_least_loss(metrics()), 1) << "the rate is too low for this test";
  EXPECT_EQ(best(), "step-00000003\n");
  EXPECT_EQ(host::Checkpoint(save() + "/step-00000003").index().state.best_step, 3);
}

INSTANTIATE_TEST_SUITE_P(Ways, SaveBest, ::testing::Values("", "--save-async"),
                         [](const auto& test) { return test.index ? "Async" : "Sync"; });

}  // namespace
}  // namespace tessera::testing
