// --save-async: the checkpoints are those of the run that waits for them, byte for byte, and so are the steps.
#include <gtest/gtest.h>

#include "parity/checkpoint_layouts.h"

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

}  // namespace
}  // namespace tessera::testing
