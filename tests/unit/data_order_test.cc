#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "data/sequence_order.h"
#include "data/shuffle.h"
#include "support/counting_tokens.h"
#include "support/expect_error.h"

namespace tessera::host {
namespace {

using tessera::testing::CountingTokens;
using tessera::testing::expect_error;

TEST(Shuffled, IsAPermutationForEveryNumber) {
  for (uint64_t num = 1; num <= 300; ++num) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < num; ++i) {
      seen.insert(shuffled(5, 1, num, i));
      ASSERT_LT(*seen.rbegin(), num);
    }
    ASSERT_EQ(seen.size(), num);
  }
  for (const uint32_t i : {0u, 1u, 0x80000000u, 0xfffffffeu})
    EXPECT_LT(shuffled(5, 1, 0xffffffff, i), 0xffffffff);
  constexpr uint64_t kMany = (uint64_t{1} << 40) + 1;
  for (const uint64_t i : {uint64_t{0}, kMany / 2, kMany - 1})
    EXPECT_LT(shuffled(5, 1, kMany, i), kMany);
}

// Computed once by a Python program of the same definition: a later version must continue a run in this order.
TEST(Shuffled, IsTheSameForEver) {
  std::vector<uint64_t> order(10);
  for (uint32_t i = 0; i < 10; ++i)
    order[i] = shuffled(1337, 3, 10, i);
  EXPECT_EQ(order, (std::vector<uint64_t>{6, 3, 2, 1, 5, 4, 9, 8, 0, 7}));
  constexpr uint64_t kSeed = (uint64_t{1} << 33) + 7, kEpoch = (uint64_t{1} << 32) + 1;
  EXPECT_EQ(shuffled(kSeed, kEpoch, 1797, 5), 1541u);
  EXPECT_EQ(shuffled(kSeed, kEpoch, 0xffffffff, 5), 3719772920u);
}

// Each example at each place about as often: chi-squared of 63 * 63 degrees of freedom, 6 deviations wide.
TEST(Shuffled, FavorsNoPlace) {
  constexpr uint32_t kNum = 64, kEpochs = 6400;
  std::vector<double> counts(kNum * kNum);
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch)
    for (uint32_t i = 0; i < kNum; ++i)
      ++counts[i * kNum + shuffled(11, epoch, kNum, i)];
  double chi_squared = 0;
  for (const double count : counts)
    chi_squared += (count - kEpochs / kNum) * (count - kEpochs / kNum) / (kEpochs / kNum);
  EXPECT_NEAR(chi_squared, 63 * 63, 6 * 90);
}

TEST(RandomOffset, ReachesEveryNumberAndNoOther) {
  std::set<uint64_t> seen;
  for (uint64_t epoch = 0; epoch < 500; ++epoch)
    seen.insert(random_offset(3, epoch, 20));
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_EQ(*seen.rbegin(), 19u);
  EXPECT_EQ(random_offset(3, 7, 1), 0u);
}

// Where the sequences of the next micro-steps begin, in order.
std::vector<int32_t> begins(SequenceOrder order, int num_micro_steps, int64_t num_ranks, int64_t batch, int64_t seq) {
  std::vector<int32_t> all;
  std::vector<int32_t> inputs(static_cast<size_t>(batch * seq)), targets(inputs.size());
  for (int i = 0; i < num_micro_steps; ++i, order.advance())
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      order.read(rank, inputs, targets);
      for (int64_t row = 0; row < batch; ++row) {
        const auto first = static_cast<size_t>(row * seq);
        all.push_back(inputs[first]);
        for (size_t k = 0; k < static_cast<size_t>(seq); ++k) {
          EXPECT_EQ(inputs[first + k], inputs[first] + static_cast<int32_t>(k));
          EXPECT_EQ(targets[first + k], inputs[first + k] + 1);
        }
      }
    }
  return all;
}

TEST(SequenceOrder, AnEpochHasEverySequenceOnceAtAnOffsetOfItsOwn) {
  constexpr int kSeq = 8, kNum = 30;
  const CountingTokens tokens(kSeq * (kNum + 1) + 5);
  const std::vector<int32_t> all = begins(SequenceOrder(tokens, 1, kSeq, 1, 1), 20 * kNum, 1, 1, kSeq);
  std::set<int32_t> offsets;
  for (auto epoch = all.begin(); epoch != all.end(); epoch += kNum) {
    std::vector<int32_t> sorted(epoch, epoch + kNum);
    EXPECT_FALSE(std::ranges::is_sorted(sorted)) << "is shuffled";
    std::ranges::sort(sorted);
    offsets.insert(sorted[0]);
    for (int i = 0; i < kNum; ++i)
      EXPECT_EQ(sorted[static_cast<size_t>(i)], sorted[0] + i * kSeq);
  }
  EXPECT_GT(offsets.size(), 5u);
  EXPECT_LT(*offsets.rbegin(), 2 * kSeq);
}

// 3 sequences of 4 tokens, at an offset of 0 to 3.
TEST(SequenceOrder, ReachesTheFirstTokenAndTheLast) {
  const CountingTokens tokens(16);
  const std::vector<int32_t> all = begins(SequenceOrder(tokens, 1, 4, 1, 1), 300, 1, 1, 4);
  EXPECT_EQ(*std::ranges::min_element(all), 0);
  EXPECT_EQ(*std::ranges::max_element(all), 11) << "whose last target is token 15";
}

TEST(SequenceOrder, TheSeedDecides) {
  const CountingTokens tokens(1000);
  const auto of_seed = [&](uint64_t seed) { return begins(SequenceOrder(tokens, 4, 5, 1, seed), 10, 1, 4, 5); };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1), of_seed(2));
}

TEST(SequenceOrder, IsTheSameHoweverAStepIsCut) {
  const CountingTokens tokens(100);  // micro-steps span epochs
  const std::vector<int32_t> one = begins(SequenceOrder(tokens, 12, 6, 1, 9), 5, 1, 12, 6);
  EXPECT_EQ(one, begins(SequenceOrder(tokens, 3, 6, 1, 9), 20, 1, 3, 6));
  EXPECT_EQ(one, begins(SequenceOrder(tokens, 6, 6, 2, 9), 5, 2, 6, 6));
  EXPECT_EQ(one, begins(SequenceOrder(tokens, 3, 6, 2, 9), 10, 2, 3, 6));
}

TEST(SequenceOrder, ContinuesFromAPosition) {
  const CountingTokens tokens(500);
  SequenceOrder order(tokens, 4, 7, 2, 3), later(tokens, 8, 7, 1, 3);
  for (int i = 0; i < 9; ++i)
    order.advance();
  EXPECT_EQ(order.position(), 9u * 2 * 4 * 7);
  later.set_position(order.position());
  EXPECT_EQ(begins(order, 5, 2, 4, 7), begins(later, 5, 1, 8, 7));
}

TEST(SequenceOrder, NeedsASequenceAndItsLastTarget) {
  const CountingTokens enough(9), too_short(8);
  EXPECT_EQ(begins(SequenceOrder(enough, 2, 8, 1, 3), 2, 1, 2, 8), std::vector<int32_t>(4, 0));
  expect_error([&] { SequenceOrder(too_short, 1, 8, 1, 3); }, {"counting is too short", "need 9", "--seq-len"});
}

}  // namespace
}  // namespace tessera::host
