// Ranks that are killed or stopped at random moments of a job of processes: it ends in time, the right rank is blamed,
// and nothing is left behind.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "e2e/cli.h"
#include "support/processes.h"

namespace tessera::testing {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

inline constexpr int kRanks = 3;

/// A job whose time-outs nothing waits for, or with short ones.
inline std::vector<std::string> job(const std::string& steps, int64_t start_ms = kNeverMs, int64_t step_ms = kNeverMs) {
  return train({"--nproc=" + std::to_string(kRanks), "--comm=gloo", "--steps=" + steps,
                "--start-timeout-ms=" + std::to_string(start_ms), "--timeout-ms=" + std::to_string(step_ms)});
}

/// What a signal to a rank did to a job.
struct Outcome {
  bool was_hit = false;  ///< the rank still ran
  int pid = 0;
  milliseconds until_end{0};
  CommandResult result;
};

/// Sends `signal` to the rank's process `delay` after the launcher began, or as soon as it is there after that.
inline Outcome hit(const std::vector<std::string>& arguments, int rank, int signal, milliseconds delay) {
  Command run(arguments);
  std::this_thread::sleep_for(delay);
  std::vector<int> ranks = children_of(run.pid());
  while (ranks.size() < kRanks && is_running(run.pid())) {
    std::this_thread::sleep_for(milliseconds(1));
    ranks = children_of(run.pid());
  }
  Outcome outcome;
  const auto when = Clock::now();
  if (ranks.size() == kRanks) {
    outcome.pid = ranks[static_cast<size_t>(rank)];
    outcome.was_hit = is_running(outcome.pid) && kill(outcome.pid, signal) == 0;
  }
  outcome.result = run.wait();
  outcome.until_end = std::chrono::duration_cast<milliseconds>(Clock::now() - when);
  for (const int process : ranks)
    EXPECT_FALSE(is_running(process)) << "process " << process << " was left behind";
  return outcome;
}

/// Our names there. LLVM's OpenMP runtime leaves its own when a process is killed.
inline std::string shared_memory() {
  std::string names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("__KMP_REGISTERED_LIB")) names += name + " ";
  }
  return names;
}

/// A moment between the launcher's start and some time after its end on an idle machine.
inline std::vector<milliseconds> moments(int num_moments, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<milliseconds> all;
  for (int i = 0; i < num_moments; ++i)
    all.emplace_back(std::uniform_int_distribution(0, 1'500)(random));
  return all;
}

inline void expect_blame(const Outcome& outcome, int rank, const std::string& what, milliseconds delay) {
  SCOPED_TRACE("rank " + std::to_string(rank) + " after " + std::to_string(delay.count()) + " ms");
  if (outcome.result.exit_code == 0) return;  // it was over, or nearly so
  EXPECT_TRUE(outcome.was_hit) << outcome.result.err;
  EXPECT_EQ(outcome.result.exit_code, 1) << outcome.result.err;
  const std::string cause = "cause:        rank " + std::to_string(rank) + " (process " + std::to_string(outcome.pid);
  EXPECT_NE(outcome.result.err.find(cause), std::string::npos) << outcome.result.err;
  EXPECT_NE(outcome.result.err.find(what), std::string::npos) << outcome.result.err;
  EXPECT_EQ(outcome.result.err.find("cause:", outcome.result.err.find("cause:") + 1), std::string::npos)
      << "said twice:\n"
      << outcome.result.err;
}

/// Long before a time-out ends; otherwise it throws.
inline void kill_at(int num_moments) {
  const std::string shm = shared_memory();
  milliseconds longest{0};
  int num_hits = 0;
  for (int rank = 0; rank < kRanks; ++rank)
    for (const milliseconds delay : moments(num_moments, 17u + static_cast<uint32_t>(rank))) {
      const Outcome outcome = hit(job("150"), rank, SIGKILL, delay);
      expect_blame(outcome, rank, "killed by signal 9 (Killed)", delay);
      if (outcome.result.exit_code == 0) continue;
      ++num_hits;
      longest = std::max(longest, outcome.until_end);
    }
  EXPECT_GT(num_hits, 0);
  EXPECT_EQ(shared_memory(), shm);
  std::cout << num_hits << " kills, the longest end took " << longest.count() << " ms\n";
}

/// A second after the time-out, and what a busy machine adds.
inline void stop_at(int num_moments) {
  milliseconds longest{0};
  int num_hits = 0;
  for (int rank = 0; rank < kRanks; ++rank)
    for (const milliseconds delay : moments(num_moments, 71u + static_cast<uint32_t>(rank)))
      with_short_time(2'000, [&, rank, delay](int64_t step_ms) {
        const int64_t start_ms = 3 * step_ms / 2;
        const Outcome outcome = hit(job("150", start_ms, step_ms), rank, SIGSTOP, delay);
        expect_blame(outcome, rank, "its process was stopped", delay);
        if (outcome.result.exit_code == 0) return;
        ++num_hits;
        longest = std::max(longest, outcome.until_end);
        EXPECT_LT(outcome.until_end, milliseconds(start_ms + 1'000 + step_ms)) << outcome.result.err;
      });
  EXPECT_GT(num_hits, 0);
  std::cout << num_hits << " stops, the longest end took " << longest.count() << " ms\n";
}

}  // namespace tessera::testing
