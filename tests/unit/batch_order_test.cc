#include "data/batch_order.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "support/counting_tokens.h"
#include "support/expect_error.h"

namespace tessera::host {
namespace {

using tessera::testing::CountingTokens;
using tessera::testing::expect_error;

// Where the window of a rank starts; its targets must be the next tokens.
int32_t window_begin(const BatchOrder& order, int64_t rank, std::size_t window_tokens) {
  std::vector<int32_t> inputs(window_tokens), targets(window_tokens), expected(window_tokens);
  order.read(rank, inputs, targets);
  std::iota(expected.begin(), expected.end(), inputs[0]);
  EXPECT_EQ(inputs, expected);
  std::iota(expected.begin(), expected.end(), inputs[0] + 1);
  EXPECT_EQ(targets, expected);
  return inputs[0];
}

TEST(BatchOrder, RanksReadNeighboringWindows) {
  const CountingTokens tokens(1000);
  BatchOrder order(tokens, 2, 5, 3);
  for (int step = 0; step < 5; ++step) {
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(window_begin(order, rank, 10), step * 30 + rank * 10);
    order.advance();
  }
}

TEST(BatchOrder, TwiceTheAccumulationIsTwiceTheRanks) {
  const CountingTokens tokens(1000);
  BatchOrder two_ranks(tokens, 2, 4, 2), one_rank(tokens, 2, 4, 1);
  for (int step = 0; step < 20; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(window_begin(two_ranks, rank, 8), window_begin(one_rank, 0, 8));
      one_rank.advance();
    }
    two_ranks.advance();
  }
}

// Wraps when fewer than d * B * T + 1 = 13 tokens are left.
TEST(BatchOrder, WrapsWhenAStepNoLongerFits) {
  const auto positions = [](uint64_t num_tokens) {
    const CountingTokens tokens(num_tokens);
    BatchOrder order(tokens, 2, 3, 2);
    std::vector<uint64_t> found;
    for (int step = 0; step < 5; ++step) {
      found.push_back(order.position());
      EXPECT_EQ(window_begin(order, 1, 6), static_cast<int32_t>(order.position() + 6));
      order.advance();
    }
    return found;
  };
  EXPECT_EQ(positions(13), (std::vector<uint64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(positions(24), (std::vector<uint64_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(positions(25), (std::vector<uint64_t>{0, 12, 0, 12, 0}));
  EXPECT_EQ(positions(36), (std::vector<uint64_t>{0, 12, 0, 12, 0}));
  EXPECT_EQ(positions(37), (std::vector<uint64_t>{0, 12, 24, 0, 12}));
}

TEST(BatchOrder, ContinuesFromAPosition) {
  const CountingTokens tokens(100);
  BatchOrder order(tokens, 1, 10, 2);
  order.set_position(7);
  EXPECT_EQ(window_begin(order, 1, 10), 17);
  order.set_position(79);
  EXPECT_EQ(order.position(), 79u);
  order.set_position(80);
  EXPECT_EQ(order.position(), 0u) << "20 tokens are left, 21 are needed";
  order.set_position(100);
  EXPECT_EQ(order.position(), 0u);
  expect_error([&] { order.set_position(101); }, {"position 101", "counting"});
}

TEST(BatchOrder, DataShorterThanAStepIsAnError) {
  const CountingTokens short_tokens(24), enough(25);
  EXPECT_NO_THROW(BatchOrder(enough, 2, 4, 3));
  expect_error([&] { BatchOrder(short_tokens, 2, 4, 3); },
               {"counting", "3 data ranks", "2 sequences", "4 tokens", "25 tokens", "--batch-size"});
}

}  // namespace
}  // namespace tessera::host
