// A run is killed at every call of every save, and goes on.
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

}  // namespace
}  // namespace tessera::testing
