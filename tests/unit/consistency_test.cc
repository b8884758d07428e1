// Ranks that ask one another.
#include "train/consistency.h"

#include <gtest/gtest.h>

#include <thread>

#include "launch/memory_store.h"
#include "support/expect_error.h"

namespace tessera::testing {
using namespace host;
namespace {

std::vector<int> ask(const std::vector<bool>& answers) {
  const auto store = std::make_shared<MemoryStore>();
  const int num_ranks = static_cast<int>(answers.size());
  std::vector<int> verdicts(answers.size(), -1);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      const RankInfo info{rank, rank, num_ranks, true, store, [] { return false; }};
      verdicts[r] = all_ranks_agree(info, num_ranks, "captured/0", answers[r], 10'000);
    });
  for (std::thread& rank : ranks)
    rank.join();
  return verdicts;
}

TEST(AllSayYes, WhenAllDo) {
  EXPECT_EQ(ask({true}), (std::vector<int>{1}));
  EXPECT_EQ(ask({true, true, true}), (std::vector<int>{1, 1, 1}));
}

TEST(AllSayYes, NotWhenOneDoesNot) {
  EXPECT_EQ(ask({false}), (std::vector<int>{0}));
  EXPECT_EQ(ask({true, false, true}), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(ask({false, false, false}), (std::vector<int>{0, 0, 0}));
}

TEST(AllSayYes, ARankThatDoesNotAnswerIsMissed) {
  const RankInfo info{0, 0, 2, true, std::make_shared<MemoryStore>(), [] { return false; }};
  expect_error([&] { all_ranks_agree(info, 2, "captured/0", true, 50); }, {"captured/0"});
}

}  // namespace
}  // namespace tessera::testing
