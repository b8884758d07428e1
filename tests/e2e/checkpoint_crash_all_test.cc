// A run is killed at every call of every save, and goes on.
#include <gtest/gtest.h>

#include "e2e/checkpoint_crash.h"

namespace tessera::testing {
namespace {

TEST(CheckpointCrashAll, AtEveryCall) {
  for (const int num_ranks : {1, 2}) {
    const SavingJob job(num_ranks);
    const int num_calls = job.num_calls();
    for (int call = 1; call <= num_calls; ++call)
      EXPECT_TRUE(job.expect_same_after_kill(call)) << call << " of " << num_calls;
  }
}

}  // namespace
}  // namespace tessera::testing
