#include "data/examples/example_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
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

TEST(ExampleOrder, EveryEpochHasEveryExampleOnce) {
  const ExampleSource source = counting(30);
  ExampleOrder order(source, 4, 1, 1, true);
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
  ExampleOrder one(source, 50, 1, 1, true), again(source, 50, 1, 1, true), other(source, 50, 1, 2, true);
  const std::vector<int32_t> examples = examples_of(one, 4, 1, 50);
  EXPECT_EQ(examples, examples_of(again, 4, 1, 50));
  EXPECT_NE(examples, examples_of(other, 4, 1, 50));
}

// 7 examples: micro-steps span epochs in every way.
TEST(ExampleOrder, IsTheSameHoweverAStepIsCut) {
  const ExampleSource source = counting(7);
  ExampleOrder one_rank(source, 12, 1, 9, true), accumulated(source, 3, 1, 9, true), two_ranks(source, 6, 2, 9, true),
      both(source, 3, 2, 9, true);
  const std::vector<int32_t> examples = examples_of(one_rank, 5, 1, 12);
  EXPECT_EQ(examples, examples_of(accumulated, 20, 1, 3));
  EXPECT_EQ(examples, examples_of(two_ranks, 5, 2, 6));
  EXPECT_EQ(examples, examples_of(both, 10, 2, 3));
}

TEST(ExampleOrder, ContinuesFromAPosition) {
  const ExampleSource source = counting(10);
  ExampleOrder order(source, 4, 2, 3, true), later(source, 8, 1, 3, true);
  examples_of(order, 3, 2, 4);
  EXPECT_EQ(order.position(), 24u);
  later.set_position(order.position());
  EXPECT_EQ(examples_of(order, 3, 2, 4), examples_of(later, 3, 1, 8));
}

TEST(ExampleOrder, SequentialIsTheOrderOfTheFile) {
  const ExampleSource source = counting(5);
  ExampleOrder order(source, 2, 2, 9, false);
  EXPECT_EQ(examples_of(order, 3, 2, 2), (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
}

TEST(ExampleOrder, OneExampleIsEnough) {
  const ExampleSource source = counting(1);
  ExampleOrder order(source, 3, 2, 1, true);
  EXPECT_EQ(examples_of(order, 1, 2, 3), std::vector<int32_t>(6, 0));
}

}  // namespace
}  // namespace tessera::host
