// What offload moves to and from files is counted the same by plan, by metrics and by the system.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kSteps = 12;
constexpr double kMiB = 1 << 20;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// /tmp may be memory; the folder of the tests is on a disk.
class Folder {
 public:
  Folder() {
    std::string name = (fs::current_path() / "offload-counts-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path(const std::string& name = "") const { return path_ + (name.empty() ? "" : "/" + name); }
  bool has_direct_io() const {
    const int fd = ::open(path_.c_str(), O_TMPFILE | O_RDWR | O_DIRECT, 0600);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
  }

 private:
  std::string path_;
};

Flags job(const Folder& folder) {
  return {"--model=" + source_dir("examples/char"),
          "--batch-size=1",
          "--seq-len=32",
          "--threads=1",
          "--offload=stream",
          "--stream.to=file",
          "--offload-dir=" + folder.path()};
}

Flags run(const Folder& folder) {
  return tessera(Flags{"train", "--data=" + golden("/tokens.bin"), "--steps=" + std::to_string(kSteps),
                       "--metrics=" + folder.path("metrics")} +
                 job(folder));
}

json planned_offload(const Folder& folder) {
  const CommandResult plan = run_command(tessera(Flags{"plan", "--json"} + job(folder)));
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  return json::parse(plan.out)["offload"];
}

double sum_of(const std::vector<json>& entries, const char* key) {
  double sum = 0;
  for (const json& entry : entries)
    sum += entry[key].get<double>();
  return sum;
}

/// A number of /proc/PID/io of a process that has ended and was not waited for.
double count_of_the_system(int pid, const std::string& key) {
  std::ifstream io("/proc/" + std::to_string(pid) + "/io");
  std::string name;
  for (double count = 0; io >> name >> count;)
    if (name == key + ":") return count;
  return NAN;
}

TEST(OffloadCounts, MetricsCountWhatPlanSays) {
  const Folder folder;
  const CommandResult result = run_command(run(folder));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json offload = planned_offload(folder);
  EXPECT_EQ(offload["chunk_bytes"], 16 << 20);
  const std::vector<json> moved = offload["moved"], steps = read_metrics(folder.path("metrics"));
  ASSERT_EQ(steps.size(), size_t{kSteps});
  for (const json& step : steps) {
    EXPECT_EQ(step["file_read_bytes"], sum_of(moved, "file_read_bytes"));
    EXPECT_EQ(step["file_written_bytes"], sum_of(moved, "file_written_bytes"));
    EXPECT_GT(step["file_busy_ms"], 0);
    EXPECT_GE(step["file_read_bytes"], step["fetched_bytes"]);
    EXPECT_GE(step["file_written_bytes"], step["evicted_bytes"]);
  }
  for (const char* words : {"\n  offload files    rank 0 read ", " GB/s and wrote ", " over their whole time"})
    EXPECT_NE(result.err.find(words), std::string::npos) << words << " is missing in\n" << result.err;
}

// The rest is what fills the parameters and what the program itself reads.
TEST(OffloadCounts, TheSystemCountsTheSame) {
  const Folder folder;
  if (!folder.has_direct_io()) GTEST_SKIP() << "needs a file system with O_DIRECT";
  Command command(run(folder));
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(command.pid()), &ended, WEXITED | WNOWAIT), 0);
  const double read = count_of_the_system(command.pid(), "read_bytes");
  const double written = count_of_the_system(command.pid(), "write_bytes");
  const CommandResult result = command.wait();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  if (std::isnan(read) || std::isnan(written)) GTEST_SKIP() << "needs /proc/PID/io";
  const std::vector<json> steps = read_metrics(folder.path("metrics"));
  const double counted_read = sum_of(steps, "file_read_bytes"), counted_written = sum_of(steps, "file_written_bytes");
  EXPECT_GT(counted_written, 100 * kMiB);
  EXPECT_NEAR(read, counted_read, 0.02 * counted_read + 24 * kMiB);
  EXPECT_NEAR(written, counted_written, 0.02 * counted_written + 8 * kMiB);
}

TEST(OffloadCounts, WithoutFilesThereAreNone) {
  const Folder folder;
  const CommandResult result = run_command(train(Flags{"--steps=1", "--metrics=" + folder.path("metrics")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* key : {"fetched_bytes", "file_read_bytes", "file_written_bytes", "file_busy_ms"})
    EXPECT_FALSE(read_metrics(folder.path("metrics")).at(0).contains(key)) << key;
  EXPECT_EQ(result.err.find("offload"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
