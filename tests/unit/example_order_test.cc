#include "data/examples/example_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace tessera::host {
namespace {

// The one feature of example i is i, and so is its label.
ExampleSource counting(uint32_t num) {
  std::vector<float> features(num);
  std::iota(features.begin(), features.end(), 0.0f);
  ExampleTable table;
  table.features = std::make_unique<HeldFeatures<float>>(features);
  table.labels.assign(features.begin(), features.end());
  return {std::move(table), {{1, num}, std::nullopt, DataScale::none}};
}

std::vector<int32_t> micro_batch(const ExampleOrder& order, int64_t rank, std::size_t batch) {
  std::vector<float> features(batch);
  std::vector<int32_t> labels(batch);
  order.read(rank, features, labels);
  EXPECT_TRUE(std::ranges::equal(features, labels)) << "features and labels are of one example";
  return labels;
}

// The examples of the next steps, in order.
std::vector<int32_t> examples_of(ExampleOrder& order, int num_micro_steps, int64_t num_ranks, std::size_t batch) {
  std::vector<int32_t> all;
  for (int i = 0; i < num_micro_steps; ++i, order.advance())
    for (int64_t rank = 0; rank < num_ranks; ++rank)
      std::ranges::copy(micro_batch(order, rank, batch), std::back_inserter(all));
  return all;
}

TEST(Shuffled, IsAPermutationForEveryNumber) {
  for (uint32_t num = 1; num <= 300; ++num) {
    std::set<uint32_t> seen;
    for (uint32_t i = 0; i < num; ++i) {
      seen.insert(shuffled(5, 1, num, i));
      ASSERT_LT(*seen.rbegin(), num);
    }
    ASSERT_EQ(seen.size(), num);
  }
  for (const uint32_t i : {0u, 1u, 0x80000000u, 0xfffffffeu})
    EXPECT_LT(shuffled(5, 1, 0xffffffff, i), 0xffffffff);
}

// Computed once by a Python program of the same definition: a later version must continue a run in this order.
TEST(Shuffled, IsTheSameForEver) {
  std::vector<uint32_t> order(10);
  for (uint32_t i = 0; i < 10; ++i)
    order[i] = shuffled(1337, 3, 10, i);
  EXPECT_EQ(order, (std::vector<uint32_t>{6, 3, 2, 1, 5, 4, 9, 8, 0, 7}));
  constexpr uint64_t kSeed = (uint64_t{1} << 33) + 7, kEpoch = (uint64_t{1} << 32) + 1;
  EXPECT_EQ(shuffled(kSeed, kEpoch, 1797, 5), 1541u);
  EXPECT_EQ(shuffled(kSeed, kEpoch, 0xffffffff, 5), 3719772920u);
}

// Each example at each place about as often: chi-squared of 63 * 63 degrees of freedom, 6 deviations wide.
TEST(Shuffled, FavoursNoPlace) {
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

TEST(ExampleOrder, EveryEpochHasEveryExampleOnce) {
  const ExampleSource source = counting(30);
  ExampleOrder order(source, 4, 1, 1);
  const std::vector<int32_t> all = examples_of(order, 15, 1, 4);
  const std::vector<int32_t> first(all.begin(), all.begin() + 30), second(all.begin() + 30, all.end());
  std::vector<int32_t> sorted(30);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_TRUE(std::ranges::is_permutation(first, sorted));
  EXPECT_TRUE(std::ranges::is_permutation(second, sorted));
  EXPECT_NE(first, sorted) << "files are often sorted by label";
  EXPECT_NE(first, second);
}

TEST(ExampleOrder, TheSeedDecides) {
  const ExampleSource source = counting(100);
  ExampleOrder one(source, 50, 1, 1), again(source, 50, 1, 1), other(source, 50, 1, 2);
  const std::vector<int32_t> examples = examples_of(one, 4, 1, 50);
  EXPECT_EQ(examples, examples_of(again, 4, 1, 50));
  EXPECT_NE(examples, examples_of(other, 4, 1, 50));
}

// 7 examples: micro-steps span epochs in every way.
TEST(ExampleOrder, IsTheSameHoweverAStepIsCut) {
  const ExampleSource source = counting(7);
  ExampleOrder one_rank(source, 12, 1, 9), accumulated(source, 3, 1, 9), two_ranks(source, 6, 2, 9),
      both(source, 3, 2, 9);
  const std::vector<int32_t> examples = examples_of(one_rank, 5, 1, 12);
  EXPECT_EQ(examples, examples_of(accumulated, 20, 1, 3));
  EXPECT_EQ(examples, examples_of(two_ranks, 5, 2, 6));
  EXPECT_EQ(examples, examples_of(both, 10, 2, 3));
}

TEST(ExampleOrder, ContinuesFromAPosition) {
  const ExampleSource source = counting(10);
  ExampleOrder order(source, 4, 2, 3), later(source, 8, 1, 3);
  examples_of(order, 3, 2, 4);
  EXPECT_EQ(order.position(), 24u);
  later.set_position(order.position());
  EXPECT_EQ(examples_of(order, 3, 2, 4), examples_of(later, 3, 1, 8));
}

TEST(ExampleOrder, OneExampleIsEnough) {
  const ExampleSource source = counting(1);
  ExampleOrder order(source, 3, 2, 1);
  EXPECT_EQ(examples_of(order, 1, 2, 3), std::vector<int32_t>(6, 0));
}

}  // namespace
}  // namespace tessera::host
