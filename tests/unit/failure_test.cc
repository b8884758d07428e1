// Whose fault it was: the cause among what ranks tell and how their processes end.
#include "launch/failure.h"

#include <gtest/gtest.h>

#include <csignal>

#include "config/usage_error.h"
#include "launch/memory_store.h"
#include "support/expect_error.h"

namespace tessera::host {
namespace {

using How = RankEnd::How;

Error lost_peer(int about) {
  return {TSR_E_UNAVAILABLE, "all_reduce #47 lost the connection to rank " + std::to_string(about), about};
}

/// A job of n ranks that ran when it failed.
class FailedJob {
 public:
  explicit FailedJob(int num_ranks) : ends_(static_cast<size_t>(num_ranks)) {
    for (int rank = 0; rank < num_ranks; ++rank)
      at(rank).who = {rank, 100 + rank, "node"};
  }
  void told(int rank, const Error& error, int64_t step = 40) {
    at(rank).failure = make_failure(error, rank, step);
    at(rank).failure_order = ++num_told_;
    exited(rank, at(rank).failure->exit_code);
  }
  void exited(int rank, int code) { ended(rank, code ? How::exited : How::finished, code); }
  void killed(int rank, int signal) { ended(rank, How::killed, signal); }
  void lost(int rank) { ended(rank, How::lost, 0); }
  void ended_by_launcher(int rank, bool was_stopped = false) {
    killed(rank, SIGKILL);
    at(rank).was_ended = true;
    at(rank).was_stopped = was_stopped;
  }
  int cause() const { return first_cause(ends_); }
  int exit_code() const { return exit_code_of(ends_.at(static_cast<size_t>(cause()))); }
  std::string block() const { return failure_block(ends_); }

 private:
  RankEnd& at(int rank) { return ends_.at(static_cast<size_t>(rank)); }
  void ended(int rank, How how, int value) {
    at(rank).how = how;
    at(rank).value = value;
    at(rank).order = ++num_ended_;
  }
  std::vector<RankEnd> ends_;
  int num_told_ = 0, num_ended_ = 0;
};

TEST(FirstCause, ADeathBySignalWinsOverReportsThatWereThereBefore) {
  FailedJob job(3);
  job.told(0, lost_peer(2));
  job.told(1, lost_peer(2));
  job.killed(2, SIGKILL);
  EXPECT_EQ(job.cause(), 2);
  EXPECT_EQ(job.exit_code(), 1);
  EXPECT_EQ(job.block(),
            "the job failed after step 40\n"
            "  cause:        rank 2 (process 102 on node): killed by signal 9 (Killed); unless a user sent it, the "
            "system may have run out of memory: see dmesg\n"
            "  reported by:  rank 0 (process 100 on node): all_reduce #47 lost the connection to rank 2\n"
            "  reported by:  rank 1 (process 101 on node): all_reduce #47 lost the connection to rank 2");
}

TEST(FirstCause, WhatRanksSayOfThemselvesAlikeIsSaidOnce) {
  FailedJob job(3);
  for (const int rank : {1, 0, 2})
    job.told(rank, Error(TSR_E_RESOURCE_EXHAUSTED, "[gloo] dp rank " + std::to_string(rank) + ": no memory"));
  EXPECT_EQ(job.block(),
            "the job failed after step 40\n"
            "  cause:        rank 1 (process 101 on node): [gloo] dp rank 1: no memory\n"
            "  the same on:  ranks 0, 2");
}

TEST(FirstCause, OfTwoDeathsTheFirst) {
  FailedJob job(3);
  job.killed(1, SIGSEGV);
  job.killed(0, SIGKILL);
  job.told(2, lost_peer(0));
  EXPECT_EQ(job.cause(), 1);
  EXPECT_NE(job.block().find("\n  died too:     rank 0"), std::string::npos) << job.block();
}

TEST(FirstCause, AFailureOfItsOwnWinsOverAReporterWhoWasFaster) {
  FailedJob job(3);
  job.told(1, lost_peer(0));
  job.told(0, Error(TSR_E_UNAVAILABLE, "cannot write the metrics: No space left on device"));
  job.ended_by_launcher(2);
  EXPECT_EQ(job.cause(), 0);
  EXPECT_NE(job.block().find("\n  ended by the launcher: rank 2"), std::string::npos) << job.block();
}

TEST(FirstCause, AStoppedRankThatOthersMissIsToBlame) {
  FailedJob job(3);
  job.told(0, Error(TSR_E_DEADLINE, "timed out after 3000 ms waiting for rank 1", 1));
  job.told(2, Error(TSR_E_ABORTED, "rank 0 failed: timed out"));
  job.ended_by_launcher(1, true);
  EXPECT_EQ(job.cause(), 1);
  const std::string block = job.block();
  EXPECT_NE(block.find("cause:        rank 1 (process 101 on node): did not answer: its process was stopped"),
            std::string::npos)
      << block;
  EXPECT_NE(block.find("ended when told to: rank 2"), std::string::npos) << block;
}

TEST(FirstCause, AlongAChainOfWaitsTheSilentRankIsToBlame) {
  FailedJob job(3);
  job.told(2, Error(TSR_E_DEADLINE, "timed out waiting for rank 1", 1));
  job.told(1, Error(TSR_E_DEADLINE, "timed out waiting for rank 0", 0));
  job.ended_by_launcher(0);
  EXPECT_EQ(job.cause(), 0);
  EXPECT_NE(job.block().find("rank 0 (process 100 on node): did not answer"), std::string::npos) << job.block();
}

TEST(FirstCause, ARankThatEndsWithoutAWord) {
  FailedJob job(2);
  job.told(0, lost_peer(1));
  job.exited(1, 3);
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(job.exit_code(), 3);
}

TEST(FirstCause, ARankThatEndsWellTooEarly) {
  FailedJob job(2);
  job.told(0, lost_peer(1));
  job.exited(1, 0);
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(job.exit_code(), 1);
  EXPECT_NE(job.block().find("ended with exit code 0 before the job was done"), std::string::npos) << job.block();
}

TEST(FirstCause, AConnectionThatWasLostCountsAsADeath) {
  FailedJob job(2);
  job.told(0, lost_peer(1));
  job.lost(1);
  EXPECT_EQ(job.cause(), 1);
}

// A rank that waits where nothing can interrupt it tells that it was told, and then ends as it is.
TEST(FirstCause, ARankThatToldBeforeItWasLostIsNotToBlame) {
  FailedJob job(3);
  job.told(0, Error(TSR_E_ABORTED, "rank 2 failed: no memory"));
  job.lost(0);
  job.told(1, lost_peer(2));
  job.killed(1, SIGSEGV);
  job.told(2, Error(TSR_E_RESOURCE_EXHAUSTED, "no memory"));
  EXPECT_EQ(job.cause(), 2);
  EXPECT_NE(job.block().find("cause:        rank 2 (process 102 on node): no memory"), std::string::npos)
      << job.block();
}

TEST(FirstCause, WhatAllSayIsSaidOnce) {
  FailedJob job(4);
  for (const int rank : {2, 0, 1, 3})
    job.told(rank, Error(TSR_E_FAILED_PRECONDITION, "the ranks differ in --lr"), 0);
  EXPECT_EQ(job.block(),
            "the job failed before step 1 was done\n"
            "  cause:        rank 2 (process 102 on node): the ranks differ in --lr\n"
            "  the same on:  ranks 0, 1, 3");
}

TEST(FirstCause, OfManyReportersAFewAreQuoted) {
  FailedJob job(500);
  job.killed(7, SIGKILL);
  for (int rank = 8; rank < 500; ++rank)
    job.told(rank, lost_peer(7));
  const std::string block = job.block();
  EXPECT_LT(std::count(block.begin(), block.end(), '\n'), 16) << block;
  EXPECT_LT(block.size(), 2000u);
}

TEST(FirstCause, NobodyFailed) {
  FailedJob job(2);
  job.exited(0, 0);
  job.exited(1, 0);
  EXPECT_EQ(job.cause(), -1);
}

TEST(Failure, WrongUsageKeepsItsExitCode) {
  FailedJob job(2);
  job.told(0, UsageError("unknown flag --nonsense"));
  EXPECT_EQ(job.exit_code(), 2);
}

TEST(Failure, TravelsThroughTheStoreAndClosesIt) {
  MemoryStore store;
  report_failure(store, make_failure(Error(TSR_E_DEADLINE, "timed \"out\" \xff", 2), 1, 7));
  std::vector<RankEnd> ends(3);
  for (int rank = 0; rank < 3; ++rank)
    ends[static_cast<size_t>(rank)].who.rank = rank;
  read_failures(store, ends);
  EXPECT_FALSE(ends[0].failure || ends[2].failure);
  ASSERT_TRUE(ends[1].failure);
  EXPECT_EQ(ends[1].failure->about, 2);
  EXPECT_EQ(ends[1].failure->step, 7);
  EXPECT_EQ(ends[1].failure->code, TSR_E_DEADLINE);
  EXPECT_EQ(ends[1].failure_order, 1);
  testing::expect_error([&] { store.get("missing", 10'000); }, {"rank 1 (process ", "failed: timed"});
}

/// A plugin has the same store.
TEST(Failure, IsNoSuccessWhoeverWroteIt) {
  MemoryStore store;
  store.set("failure/0", R"({"rank": 0, "pid": 1, "host": "here", "code": -13, "about": -1, "step": -1, "order": 0,
                             "exit_code": 0, "sentence": "all is well"})");
  std::vector<RankEnd> ends(1);
  ends[0].who.rank = 0;
  read_failures(store, ends);
  ASSERT_TRUE(ends[0].failure);
  EXPECT_EQ(ends[0].failure->exit_code, 1);
}

}  // namespace
}  // namespace tessera::host
