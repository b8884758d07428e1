// Offload to files, as a user meets it: ten times less memory, nothing left behind, files that are damaged, and what is
// refused. The store itself is tested in file_store_test and file_store_fault_test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
namespace fs = std::filesystem;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A folder on a disk: /tmp may be memory.
const fs::path& folder_on_disk() {
  static const struct Folder {
    Folder() {
      std::string name = (fs::current_path() / "offload-files-XXXXXX").string();
      path = ::mkdtemp(name.data());
    }
    ~Folder() { fs::remove_all(path); }
    fs::path path;
  } folder;
  return folder.path;
}

Flags to_files(const std::string& policy) {
  return {"--offload=" + policy, "--" + policy + ".to=file", "--offload-dir=" + folder_on_disk().string()};
}

std::vector<double> numbers(const std::string& metrics, const char* key) {
  std::vector<double> result;
  for (const auto& line : read_json_lines(metrics))
    if (line.contains(key)) result.push_back(line[key]);
  return result;
}

/// 24 blocks of width 512: 75.9 M parameters, 1.21 GB of values, gradients, m and v in float32.
class DeepModel {
 public:
  DeepModel() {
    std::ofstream(folder_.path("config.json"))
        << R"({"model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05,
               "tie_word_embeddings": true, "vocab_size": 256, "n_positions": 128, "n_embd": 512, "n_layer": 24,
               "n_head": 8})";
    std::ofstream(folder_.path("text")) << std::string(4096, 'a') + "some text, longer than two steps of 128 tokens";
  }

  CommandResult train(const Flags& more, const std::string& limit) const {
    const Flags command = {"train",
                           "--model=" + folder_.path(),
                           "--data=" + folder_.path("text"),
                           "--nproc=1",
                           "--batch-size=1",
                           "--seq-len=128",
                           "--steps=2",
                           "--threads=2",
                           "--recompute=full"};
    Flags all = {"prlimit", "--data=" + limit, "--stack=1048576"};
    return Command(all + tessera(command + more)).wait(std::chrono::seconds(400));
  }

 private:
  TempFolder folder_;
};

// The limits count what no policy can move, too: code, stacks, and the heap. Private memory beyond --data is refused by
// the kernel, touched or not.
TEST(OffloadFiles, ATenthOfTheStatesIsEnough) {
  constexpr double kStates = 16.0 * 75'900'000;
  const DeepModel model;
  const TempFolder metrics;
  const CommandResult limited =
      model.train(to_files("stream") + Flags{"--offload-chunk=4MiB", "--metrics=" + metrics.path("a")}, "134217728");
  ASSERT_EQ(limited.exit_code, 0) << limited.err;
  EXPECT_LT(numbers(metrics.path("a"), "peak_memory_bytes").back(), kStates / 10);
  const CommandResult refused = model.train({}, "134217728");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("cannot allocate"), std::string::npos) << refused.err;
  const CommandResult unlimited = model.train({"--metrics=" + metrics.path("b")}, "unlimited");
  ASSERT_EQ(unlimited.exit_code, 0) << unlimited.err;
  for (const char* key : {"loss", "grad_norm"})
    EXPECT_EQ(numbers(metrics.path("a"), key), numbers(metrics.path("b"), key)) << key;
}

// The files of a process have no names, so what a killed rank kept is free as soon as it is gone.
TEST(OffloadFiles, AKilledRankLeavesNothing) {
  Command run(train(Flags{"--steps=100000", "--comm=local"} + to_files("optimizer-state")));
  ASSERT_TRUE(run.wait_for("step    1/")) << run.err();
  EXPECT_TRUE(fs::is_empty(folder_on_disk())) << "the files have names";
  ::kill(run.pid(), SIGKILL);
  run.wait();
  EXPECT_TRUE(fs::is_empty(folder_on_disk()));
}

/// Flips bits in all that the process keeps in unnamed files of the folder; how many files it found.
int damage_files(int pid) {
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry, gone).string();
    if (gone || !target.starts_with(folder_on_disk().string())) continue;
    const int fd = ::open(entry.path().c_str(), O_RDWR);
    if (fd < 0) continue;
    ++num_files;
    const std::string noise(1 << 20, '\x5a');
    for (off_t at = 0; ::pwrite(fd, noise.data(), noise.size(), at) > 0 && at < (8 << 20); at += 1 << 20) {
    }
    ::close(fd);
  }
  return num_files;
}

TEST(OffloadFiles, ThatAreDamagedEndTheRunAndNameWhatIsLost) {
  Command run(train(Flags{"--steps=100000", "--comm=local", "--nproc=1"} + to_files("optimizer-state")));
  ASSERT_TRUE(run.wait_for("step    2/")) << run.err();
  ASSERT_GT(damage_files(run.pid()), 0) << run.err();
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("are not what was written (crc32c)"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("optimizer "), std::string::npos) << result.err;
}

TEST(OffloadFiles, AreRefusedBeforeTheFirstStep) {
  const auto refuse = [](const Flags& flags, int exit_code, const std::string& words) {
    const CommandResult result = run_command(train(Flags{"--steps=1"} + flags));
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << words << " is missing in\n" << result.err;
  };
  refuse({"--offload=stream", "--stream.to=file"}, 2, "to=file needs --offload-dir FOLDER, on a local disk");
  refuse({"--offload=stream", "--stream.to=file", "--offload-dir=/nowhere"}, 1,
         "--offload-dir /nowhere does not exist; make it, on a local disk");
  refuse({"--offload-dir=a,,b"}, 2, "--offload-dir 'a,,b' has an empty part");
  refuse({"--offload-io=carrier-pigeon"}, 2, "--offload-io");
  refuse({"--offload=stream", "--stream.keep=nothing"}, 2,
         "keep names the unit 'nothing', which the model does not have");
}

}  // namespace
}  // namespace tessera::testing
