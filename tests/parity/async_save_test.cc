// --save-async: the checkpoints are those of the run that waits for them, byte for byte, and so are the steps. On a
// device with memory of its own too: TESSERA_TEST_DEVICE, or else `other`.
#include <gtest/gtest.h>

#include <cstdlib>

#include "parity/checkpoint_layouts.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Flags = std::vector<std::string>;

/// All files below a folder with their bytes.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder)] = file_bytes(entry.path());
  return files;
}

void expect_same_files(const std::string& a, const std::string& b) {
  const auto files = contents(a), others = contents(b);
  ASSERT_EQ(files.size(), others.size());
  EXPECT_GT(files.size(), 6u);
  for (const auto& [name, bytes] : files) {
    ASSERT_TRUE(others.contains(name)) << name;
    EXPECT_TRUE(others.at(name) == bytes) << name;
  }
}

class AsyncSave : public ::testing::TestWithParam<CheckpointLayout> {
 protected:
  /// Saves after each of these steps, so each of the checkpoints is copied while the next step begins.
  void expect_same(const Flags& more) const {
    const TempFolder folder;
    Flags flags = {"--steps=5", "--save-every=1", "--keep=0"};
    flags.insert(flags.end(), more.begin(), more.end());
    Flags waits = flags, runs = flags;
    waits.push_back("--save=" + folder.path("waits"));
    runs.insert(runs.end(), {"--save=" + folder.path("runs"), "--save-async"});
    EXPECT_EQ(first_difference(run_layout(GetParam(), waits), run_layout(GetParam(), runs)), "");
    expect_same_files(folder.path("waits"), folder.path("runs"));
  }
};

TEST_P(AsyncSave, HasTheFilesOfASaveThatStepsWaitFor) {
  expect_same({});
}

TEST_P(AsyncSave, HasThemWithStreamsThatAreLate) {
  expect_same({"--stream-delay=7", "--dtype=bf16"});
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, AsyncSave, ::testing::ValuesIn(checkpoint_layouts()),
                         [](const auto& test) { return test.param.name; });

/// One process per rank, whose threads meet in the job's store over its connections, is in async_save_run_test (e2e).
TEST(AsyncSaveMomentum, IsCopiedToo) {
  const TempFolder folder;
  const CheckpointLayout& fsdp = checkpoint_layouts()[2];
  const Flags flags = {"--steps=4", "--save-every=2", "--optimizer=sgd", "--beta1=0.9", "--freeze=wte*,h.1.*"};
  for (const char* name : {"waits", "runs"}) {
    Flags all = flags;
    all.push_back("--save=" + folder.path(name));
    if (name == std::string("runs")) all.push_back("--save-async");
    run_layout(fsdp, all);
  }
  expect_same_files(folder.path("waits"), folder.path("runs"));
}

Flags on_device() {
  const char* device = std::getenv("TESSERA_TEST_DEVICE");
  if (!device) return {"--device=other", "--plugin-dir=" + binary_dir("tests/devices")};
  return {"--device=" + std::string(device), "--cuda.share=true"};
}

/// `off`: steps are issued one action at a time; `auto`: from the second on as a graph, where the device has graphs.
class AsyncSaveOnDevice : public ::testing::TestWithParam<std::tuple<int, const char*>> {};

TEST_P(AsyncSaveOnDevice, HasTheFilesOfASaveThatStepsWaitFor) {
  const auto& [layout, graph] = GetParam();
  const TempFolder folder;
  std::vector<RunResult> results;
  for (const char* name : {"waits", "runs"}) {
    Flags flags = on_device();
    flags.insert(flags.end(), {"--steps=5", "--save-every=1", "--keep=0", "--cuda-graph=" + std::string(graph),
                               "--save=" + folder.path(name)});
    if (name == std::string("runs")) flags.push_back("--save-async");
    results.push_back(run_layout(checkpoint_layouts()[static_cast<size_t>(layout)], flags));
  }
  EXPECT_EQ(first_difference(results[0], results[1]), "");
  expect_same_files(folder.path("waits"), folder.path("runs"));
}

/// And goes on from them, as the run that never stopped.
TEST_P(AsyncSaveOnDevice, IsGoneOnFrom) {
  const auto& [layout, graph] = GetParam();
  const CheckpointLayout& on = checkpoint_layouts()[static_cast<size_t>(layout)];
  const TempFolder folder;
  const auto run = [&, graph = graph](const Flags& more) {
    Flags flags = on_device();
    flags.insert(flags.end(), {"--steps=5", "--cuda-graph=" + std::string(graph)});
    flags.insert(flags.end(), more.begin(), more.end());
    return run_layout(on, flags);
  };
  const RunResult whole = run({"--save-every=2", "--save-async", "--save=" + folder.path("saved")});
  const RunResult rest = run({"--resume=" + folder.path("saved/step-00000002")});
  EXPECT_EQ(first_difference(without_steps(whole, 2), rest), "");
}

// One rank, and three that share the device: what one makes for its copy may not wait for the others.
INSTANTIATE_TEST_SUITE_P(Checkpoint, AsyncSaveOnDevice,
                         ::testing::Combine(::testing::Values(0, 2), ::testing::Values("off", "auto")));

}  // namespace
}  // namespace tessera::testing
