// gloo-comm's groups come together while strangers connect to every port there is, at any moment, and compute the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "support/comm_harness.h"
#include "support/strangers.h"

namespace tessera::testing {
namespace {

constexpr uint64_t kNumElements = 5000;

/// A sum over the group whose result is known exactly.
void sum_once(CommRank& rank, Comm& comm) {
  std::vector<float> data(kNumElements);
  std::iota(data.begin(), data.end(), static_cast<float>(rank.rank()));
  auto collective = make_collective(TSR_COLL_ALL_REDUCE, TSR_F32, kNumElements, data.data(), data.data());
  collective.reduce = TSR_REDUCE_SUM;
  comm.submit(collective);
  rank.synchronize();
  const int n = rank.num_ranks();
  for (uint64_t i = 0; i < kNumElements; ++i)
    ASSERT_EQ(data[i], static_cast<float>(n) * static_cast<float>(i) + static_cast<float>(n * (n - 1) / 2)) << i;
}

void come_together(const CommSpec& spec, int num_comms) {
  run_ranks(spec, [&](CommRank& rank) {
    for (int i = 0; i < num_comms; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(rank.rank()));  // the first one waits for the others
      const auto comm = rank.create("dp." + std::to_string(i));
      sum_once(rank, *comm);
    }
  });
}

const auto kThisProcess = [] { return std::vector<pid_t>{getpid()}; };

class GlooStrangers : public ::testing::TestWithParam<int> {};

TEST_P(GlooStrangers, DoNoHarmWhileAGroupComesTogether) {
  Strangers strangers(kThisProcess, static_cast<unsigned>(GetParam()));
  for (int round = 0; round < 100 && strangers.num_made() < 20; ++round)
    come_together({"gloo-comm", GetParam(), "dp.test", 30000}, 6);
  EXPECT_GE(strangers.num_made(), 20);
}

TEST_P(GlooStrangers, DoNoHarmByTheirNumber) {
  Strangers strangers(kThisProcess, static_cast<unsigned>(GetParam()), kNumPoliteKinds + 1);
  come_together({"gloo-comm", GetParam(), "dp.test", 60000}, 3);
}

INSTANTIATE_TEST_SUITE_P(All, GlooStrangers, ::testing::Values(2, 3, 4));

TEST(GlooStrangers, SixteenRanksComeTogetherAmongThem) {
  Strangers strangers(kThisProcess, 16);
  come_together({"gloo-comm", 16, "dp.test", 60000}, 1);
}

TEST(GlooStrangers, NothingListensOnceAGroupIsThere) {
  run_ranks({"gloo-comm", 3, "dp.test", 30000}, [](CommRank& rank) {
    sum_once(rank, rank.comm());
    sum_once(rank, rank.comm());  // so all others have finished their create
    EXPECT_TRUE(listeners_of(getpid()).empty());
    sum_once(rank, rank.comm());
  });
}

}  // namespace
}  // namespace tessera::testing
