// Ranks that fail in a job of processes.
#include "e2e/faults.h"

namespace tessera::testing {
namespace {

TEST(Faults, AKilledRankAtAnyMoment) {
  kill_at(3);
}
TEST(Faults, AStoppedRankAtAnyMoment) {
  stop_at(1);
}
TEST(Faults, AKillInTheMiddleNamesCollectiveAndStep) {
  Command run(job("100000"));
  ASSERT_TRUE(run.wait_for("step   20/")) << run.err();
  const std::vector<int> ranks = children_of(run.pid());
  ASSERT_EQ(ranks.size(), 3u);
  ASSERT_EQ(kill(ranks[1], SIGKILL), 0);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 1);
  for (const char* part : {"the job failed after step ", "cause:        rank 1 ", "reported by:  rank ", "all_reduce #",
                           "lost the connection to rank 1"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " is missing in\n" << result.err;
}

TEST(Faults, AStopInTheMiddleEndsTheJobASecondAfterTheTimeoutAtMost) {
  for (size_t victim = 0; victim < kRanks; ++victim)
    with_short_time(2'000, [victim](int64_t step_ms) {
      auto arguments = job("100000", kPatienceMs, step_ms);
      arguments.push_back("--strategy=fsdp");  // several communicators
      Command run(arguments);
      ASSERT_TRUE(run.wait_for("step   20/")) << run.err();
      const std::vector<int> ranks = children_of(run.pid());
      ASSERT_EQ(ranks.size(), static_cast<size_t>(kRanks));
      const auto when = Clock::now();
      ASSERT_EQ(kill(ranks[victim], SIGSTOP), 0);
      const CommandResult result = run.wait();
      EXPECT_LT(Clock::now() - when, milliseconds(step_ms + 1'000 + step_ms)) << result.err;
      EXPECT_NE(result.err.find("cause:        rank " + std::to_string(victim)), std::string::npos) << result.err;
    });
}

TEST(Faults, ARankThatCannotWriteItsMetricsIsTheCause) {
  const CommandResult result = run_command(train(
      {"--nproc=2", "--comm=gloo", "--steps=20", "--metrics=/dev/full", "--timeout-ms=" + std::to_string(kNeverMs)}));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("/dev/full"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("No space left on device"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
