// Runs that save and are stopped, or refused, at one call of the system: save_faults/ is preloaded.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {

/// A small job of 6 steps that saves after every second one, unless `more` says otherwise, and goes on with what it
/// finds.
class SavingJob {
 public:
  explicit SavingJob(int num_ranks = 1, std::vector<std::string> more = {"--save-every=2"})
      : num_ranks_(num_ranks), more_(std::move(more)) {}

  std::string folder(const std::string& name) const { return root_.path(name); }

  std::string metrics(const std::string& name) const { return root_.path("metrics-" + name); }

  CommandResult run(const std::string& name, const std::map<std::string, std::string>& faults = {}) const {
    const std::string path = folder(name);
    std::vector<std::string> flags = {"--steps=6", "--save=" + path, "--resume=" + path, "--keep=2",
                                      "--metrics=" + metrics(name)};
    flags.insert(flags.end(), more_.begin(), more_.end());
    if (num_ranks_ > 1)
      flags.insert(flags.end(), {"--nproc=" + std::to_string(num_ranks_), "--strategy=fsdp", "--comm=local"});
    std::map<std::string, std::string> environment = faults;
    if (!faults.empty())
      environment.insert(
          {{"LD_PRELOAD", binary_dir("tests/e2e/libtessera_save_faults.so")}, {"TESSERA_FAULT_FOLDER", path}});
    return run_command(train(flags), environment);
  }

  /// How many calls a run of its own makes.
  int num_calls() const {
    const std::string file = root_.path("count");
    const CommandResult result = run("counted", {{"TESSERA_FAULT_COUNT", file}});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return std::stoi(file_bytes(file));
  }

  /// The bytes of the last checkpoint's tensors, and of its index.
  std::string last_checkpoint(const std::string& name) const {
    std::string bytes;
    for (int rank = 0; rank < num_ranks_; ++rank)
      bytes += file_bytes(folder(name) + "/step-00000006/rank-0000" + std::to_string(rank) + ".safetensors");
    return bytes + file_bytes(folder(name) + "/step-00000006/index.json");
  }

  /// What `best` says; empty: it is not there.
  std::string best(const std::string& name) const {
    const std::string file = folder(name) + "/best";
    return std::filesystem::exists(file) ? file_bytes(file) : "";
  }

  /// Killed at that call, then run until it is done: the result is that of the run that was not stopped, and nothing
  /// but the checkpoints that --keep asks for is left. Returns whether the call was reached.
  bool expect_same_after_kill(int call) const {
    const std::string name = "killed-" + std::to_string(call);
    const CommandResult killed = run(name, {{"TESSERA_FAULT_AT", std::to_string(call)}});
    const bool was_killed = killed.exit_code == 128 + SIGKILL;
    EXPECT_TRUE(was_killed || killed.exit_code == 0) << killed.err;
    const CommandResult resumed = run(name);
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_TRUE(last_checkpoint(name) == last_checkpoint("counted")) << "killed at call " << call;
    EXPECT_EQ(file_bytes(folder(name) + "/latest"), "step-00000006\n");
    EXPECT_EQ(best(name), best("counted"));
    for (const auto& entry : std::filesystem::directory_iterator(folder(name)))
      EXPECT_EQ(entry.path().string().find(".partial"), std::string::npos) << entry.path();
    std::filesystem::remove_all(folder(name));
    return was_killed;
  }

  /// That call fails once. The run goes on and tells what was not saved, or ends with a sentence and what it had; what
  /// resumes comes to the same end.
  void expect_same_after_error(int call, int error) const {
    SCOPED_TRACE(std::string(std::strerror(error)) + " at call " + std::to_string(call));
    const std::string name = "failed-" + std::to_string(call);
    const CommandResult failed =
        run(name, {{"TESSERA_FAULT_AT", std::to_string(call)}, {"TESSERA_FAULT_ERRNO", std::to_string(error)}});
    EXPECT_TRUE(failed.exit_code == 0 || failed.exit_code == 1) << failed.exit_code << failed.err;
    if (failed.exit_code == 1) {
      EXPECT_NE(failed.err.find(std::strerror(error)), std::string::npos) << failed.err;
    }
    const CommandResult resumed = run(name);
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_TRUE(last_checkpoint(name) == last_checkpoint("counted"));
    EXPECT_EQ(file_bytes(folder(name) + "/latest"), "step-00000006\n");
    std::filesystem::remove_all(folder(name));
  }

 private:
  const int num_ranks_;
  const std::vector<std::string> more_;
  TempFolder root_;
};

}  // namespace tessera::testing
