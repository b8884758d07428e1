// A job whose processes are killed at random moments, and which is started again each time, ends as an undisturbed
// job. TESSERA_NUM_KILLS in the environment says how often; a job takes some, then the next one does.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>

#include "e2e/cli.h"
#include "support/processes.h"
#include "support/setting.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kNumRanks = 2;
const std::string kLastStep = "step-00000300";

/// 300 steps of two ranks over gloo, of which every tenth is followed by a save; it goes on with what it finds.
std::vector<std::string> job(const std::string& folder) {
  return train({"--nproc=" + std::to_string(kNumRanks), "--comm=gloo", "--strategy=fsdp", "--steps=300",
                "--save=" + folder, "--resume=" + folder, "--save-every=10"});
}

/// All that the last checkpoint holds.
std::string end_state(const std::string& folder) {
  std::string bytes = file_bytes(folder + "/" + kLastStep + "/index.json");
  for (int rank = 0; rank < kNumRanks; ++rank)
    bytes += file_bytes(folder + "/" + kLastStep + "/rank-0000" + std::to_string(rank) + ".safetensors");
  return bytes;
}

/// What `latest` names; "" before the first save.
std::string latest(const std::string& folder) {
  return file_bytes(folder + "/latest");
}

bool is_cut_off(const std::string& folder) {
  return fs::exists(folder) && std::ranges::any_of(fs::directory_iterator(folder), [](const auto& entry) {
           return entry.path().extension() == ".partial";
         });
}

struct Tally {
  int jobs = 0, launcher = 0, rank = 0;
  int before_the_first_save = 0;  ///< kills that came before any checkpoint
  int within_a_save = 0;          ///< kills that left a part of one
  int kills() const { return launcher + rank; }
};

class RandomKills : public ::testing::Test {
 protected:
  /// How long an undisturbed run takes, and what it leaves.
  void run_undisturbed() {
    const std::string folder = folder_.path("undisturbed");
    const auto start = Clock::now();
    const CommandResult run = Command(job(folder)).wait();
    ASSERT_EQ(run.exit_code, 0) << run.err;
    duration_ = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    expected_ = end_state(folder);
    ASSERT_FALSE(expected_.empty());
  }

  /// Kills the launcher or a rank; without ranks yet, the launcher.
  void kill_one(Command& run) {
    const std::vector<int> ranks = children_of(run.pid());
    const size_t victim = draw_() % (kNumRanks + 1);
    const bool is_rank = victim < ranks.size();
    kill(is_rank ? ranks[victim] : run.pid(), SIGKILL);
    ++(is_rank ? tally_.rank : tally_.launcher);
    const CommandResult result = run.wait();
    EXPECT_NE(result.exit_code, 0) << result.err;
    for (const int rank : ranks) {
      EXPECT_TRUE(eventually([rank] { return !is_running(rank); })) << "rank " << rank << " outlives the job";
    }
  }

  /// Starts the job and kills it after up to a third of an undisturbed run's time. Returns whether it was done before.
  bool disturb(const std::string& folder) {
    const auto moment = Clock::now() + milliseconds(draw_() % static_cast<uint64_t>(duration_.count() / 3));
    Command run(job(folder));
    while (Clock::now() < moment && is_running(run.pid()))
      std::this_thread::sleep_for(milliseconds(1));
    if (!is_running(run.pid())) {
      const CommandResult result = run.wait();
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return true;
    }
    const std::string before = latest(folder);
    kill_one(run);
    EXPECT_LE(before, latest(folder)) << "a checkpoint was lost";
    tally_.before_the_first_save += latest(folder).empty();
    tally_.within_a_save += is_cut_off(folder);
    return false;
  }

  /// A job until it is done; kills as many as are left.
  void run_job(int most_kills) {
    const std::string folder = folder_.path("job-" + std::to_string(++tally_.jobs));
    bool is_done = false;
    while (!is_done && tally_.kills() < most_kills)
      is_done = disturb(folder);
    const CommandResult last = Command(job(folder)).wait();
    ASSERT_EQ(last.exit_code, 0) << last.err;
    EXPECT_TRUE(end_state(folder) == expected_) << "job " << tally_.jobs << " has other bits";
    EXPECT_FALSE(is_cut_off(folder));
    fs::remove_all(folder);
  }

  const TempFolder folder_;
  std::mt19937_64 draw_{20261123};
  milliseconds duration_{};
  std::string expected_;
  Tally tally_;
};

TEST_F(RandomKills, EndAsAnUndisturbedRun) {
  ASSERT_NO_FATAL_FAILURE(run_undisturbed());
  const int num_kills = setting("TESSERA_NUM_KILLS", 5);
  while (tally_.kills() < num_kills)
    ASSERT_NO_FATAL_FAILURE(run_job(num_kills));
  std::cout << tally_.kills() << " kills in " << tally_.jobs << " jobs: " << tally_.launcher << " of the launcher, "
            << tally_.rank << " of a rank; " << tally_.before_the_first_save << " before the first save, "
            << tally_.within_a_save << " within a save; an undisturbed job takes " << duration_.count() << " ms\n";
}

}  // namespace
}  // namespace tessera::testing
