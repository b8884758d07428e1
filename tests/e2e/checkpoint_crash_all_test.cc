// A run is killed at every call of every save, or the call fails, and the run goes on.
#include <cerrno>

#include <gtest/gtest.h>

#include "e2e/checkpoint_crash.h"

namespace tessera::testing {
namespace {

void expect_same_after_each_kill(const SavingJob& job) {
  const int num_calls = job.num_calls();
  for (int call = 1; call <= num_calls; ++call)
    EXPECT_TRUE(job.expect_same_after_kill(call)) << call << " of " << num_calls;
}

TEST(CheckpointCrashAll, AtEveryCall) {
  for (const int num_ranks : {1, 2})
    expect_same_after_each_kill(SavingJob(num_ranks));
}

TEST(CheckpointCrashAll, AtEveryCallOfSavesBesideSteps) {
  for (const int num_ranks : {1, 2})
    expect_same_after_each_kill(
        SavingJob(num_ranks, {"--save-every=2", "--save-async", "--save-best", "--eval-data=" + golden("/tokens.bin"),
                              "--eval-every=1", "--eval-batches=2"}));
}

class EveryCall : public ::testing::TestWithParam<int> {};

TEST_P(EveryCall, MayFail) {
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--save-every=2"}, {"--save-every=2", "--save-async"}})
    for (const int num_ranks : {1, 2}) {
      const SavingJob job(num_ranks, how);
      const int num_calls = job.num_calls();
      ASSERT_GT(num_calls, 30);
      for (int call = 1; call <= num_calls; ++call)
        job.expect_same_after_error(call, GetParam());
    }
}
INSTANTIATE_TEST_SUITE_P(CheckpointCrashAll, EveryCall, ::testing::Values(ENOSPC, EIO),
                         [](const auto& test) { return std::string(test.param == EIO ? "EIO" : "ENOSPC"); });

}  // namespace
}  // namespace tessera::testing
