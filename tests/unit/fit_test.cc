// What the policy `fit` chooses, from views made by hand and from random ones. What is in use after its answers is
// counted here visit by visit, from the answers alone.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "support/expect_error.h"
#include "unit/fit_step.h"

namespace tessera::testing {
namespace {

using Texts = std::vector<std::string>;

/// "item after visit" of each answer.
Texts texts(const Answers& answers) {
  Texts result;
  for (const tsr_leave& answer : answers)
    result.push_back(std::to_string(answer.buffer) + " after " + std::to_string(answer.after));
  return result;
}

constexpr uint32_t kSaved = TSR_BUFFER_SAVED, kHome = TSR_BUFFER_HOME, kState = TSR_BUFFER_OPTIMIZER;

TEST(Fit, LeavesAllWhereItIsWhenTheStepFits) {
  Step step(20);
  step.item(kSaved, 1000, {written(0), 19}).item(kSaved, 1000, {written(5), 15});
  step.limit = 2000;
  EXPECT_EQ(texts(step.ask()), Texts());
  step.limit = 1999;
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0"}));
}

TEST(Fit, KeepsAMarginFree) {
  Step step(20);
  step.item(kSaved, 1000, {written(0), 19}).item(kSaved, 1000, {written(5), 15});
  step.limit = 2500;
  EXPECT_EQ(texts(step.ask({.margin = 0.2})), Texts());
  step.limit = 2499;
  EXPECT_EQ(step.ask({.margin = 0.2}).size(), 1u);
}

TEST(Fit, SaysWhenItemsComeAndGoAndWhereTo) {
  Step step(20);
  step.item(kSaved, 1000, {written(0), 19}).item(kSaved, 1000, {10});
  step.places.push_back({TSR_MEMORY_FILE, 0, UINT64_MAX});
  step.limit = 1500;
  const Answers answers = step.ask({.ahead = 3, .linger = 2, .to = "file"});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].memory, TSR_MEMORY_FILE);
  EXPECT_EQ(answers[0].ahead, 3u);
  EXPECT_EQ(answers[0].linger, 2u);
}

// In visit 10 the items 1 and 3 are in use too: of 2 and 4 the one goes that is not copied out.
TEST(Fit, TakesWhatWasNotWrittenSinceItLeft) {
  Step step(40);
  step.item(kSaved, 1000, {written(0), 19})  // copied out after 0
      .item(kSaved, 1000, {0, 19})           // only read
      .item(kSaved, 1000, {10});
  step.limit = 2000;
  EXPECT_EQ(texts(step.ask()), (Texts{"2 after 0"}));
}

// A value that left once is valid in the other memory, so its second gap is cheaper than another item's first.
TEST(Fit, TakesTheNextGapOfWhatLeftAlready) {
  Step step(60);
  step.item(kSaved, 1000, {written(0), 20, 50})
      .item(kSaved, 1001, {written(21), 49})
      .item(kSaved, 2500, {10})
      .item(kSaved, 1400, {35});
  step.limit = 2501;
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0", "1 after 20"}));
}

// State: out and in once. Parameters: in for the forward, for the backward with the update, and out.
TEST(Fit, TakesOptimizerStateBeforeParameters) {
  Step step(40);
  step.updates(30, 39)
      .item(kHome, 1000, {0, 28, written(30)})
      .item(kState, 1000, {written(30)})
      .item(kSaved, 1000, {15});
  step.limit = 2000;
  EXPECT_EQ(texts(step.ask()), (Texts{"2 after 30"}));
  step.item(kSaved, 1000, {15});
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0", "1 after 30", "2 after 30"}));
}

// The gap from the backward to the update helps no visit that is too high: the parameters stay until the update.
TEST(Fit, ParametersLeaveInTheGapsThatHelp) {
  Step step(60);
  step.updates(50, 59).item(kHome, 1000, {0, 28, written(50)}).item(kSaved, 1000, {14});
  step.limit = 1000;
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0", "1 after 50"}));
  step.item(kSaved, 1000, {40});
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0", "1 after 28", "1 after 50"}));
}

// The state of a unit of four chunks, which the peak in the update of the second is above the limit by.
TEST(Fit, StatePassesInChunks) {
  Step step(40);
  step.updates(30, 39).item(kState, 4000, {written(30), written(31), written(32), written(33)}, 1000);
  step.limit = 3000;
  const Answers answers = step.ask();
  EXPECT_EQ(texts(answers), (Texts{"1 after 30", "1 after 31", "1 after 32", "1 after 33"}));
  EXPECT_EQ(step.peak(answers), 3000u);
}

TEST(Fit, OfEqualOnesTakesTheOneWithMostComputeBesideItsCopies) {
  Step step(40);
  step.item(kSaved, 1000, {written(0), 39}).item(kSaved, 1000, {written(5), 30}).item(kSaved, 1000, {15});
  step.limit = 2000;
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0"})) << "by id";
  step.operations(6, 1e6);  // while the second is copied out
  EXPECT_EQ(texts(step.ask()), (Texts{"2 after 5"}));
  step.operations(38, 2e6);  // while the first comes back
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0"}));
}

TEST(Fit, WhatIsOnlyReadHasNoCopyOut) {
  Step step(40);
  step.item(kHome, 1000, {0, 39}).item(kHome, 1000, {5, 30}).item(kSaved, 1000, {15});
  step.limit = 2000;
  step.operations(6, 1e6);  // after the last use of the second before the peak
  EXPECT_EQ(texts(step.ask()), (Texts{"1 after 0", "1 after 39"}));
}

TEST(Fit, OfEqualOnesTakesTheLargest) {
  Step step(40);
  step.item(kSaved, 1000, {written(0), 39}).item(kSaved, 1500, {written(0), 39}).item(kSaved, 1000, {15});
  step.limit = 2600;
  EXPECT_EQ(texts(step.ask()), (Texts{"2 after 0"}));
}

// The larger one is taken for the highest visit after two small ones were, which then can stay.
TEST(Fit, UndoesWhatALaterMoveMadeSuperfluous) {
  Step step(40);
  step.item(kSaved, 300, {0, 39})
      .item(kSaved, 200, {0, 39})
      .item(kSaved, 5000, {written(1), 38})
      .item(kSaved, 5000, {15});
  step.limit = 5600;
  EXPECT_EQ(texts(step.ask()), (Texts{"3 after 1"}));
}

TEST(Fit, RefusesToGuessTheLimit) {
  Step step(20);
  step.item(kSaved, 1000, {written(0), 19});
  expect_error([&] { step.ask(); }, {"fit needs --device-memory: what a rank may take of its device"});
  step.places.clear();
  EXPECT_EQ(texts(step.ask()), Texts()) << "no place is offered";
}

TEST(Fit, NamesTheVisitThatIsTooLarge) {
  Step step(40);
  step.item(kSaved, 3 << 20, {written(0), 20})
      .item(kSaved, 5 << 20, {18, 19, 20})
      .item(kSaved, 4 << 20, {written(1), 39});
  step.limit = 6 << 20;
  expect_error(
      [&] { step.ask(); },
      {"visit 19, forward mb=19, alone needs 8.0 MiB of device memory, whatever else leaves; it may take 6.0 MiB"});
}

/// Blocks with what they save, their parameters and state, whose sizes are random; then some items at random.
Step random_step(std::mt19937& random) {
  const int num_blocks = 2 + static_cast<int>(random() % 8);
  const int loss = num_blocks, update = 2 * num_blocks + 1;
  Step step(static_cast<size_t>(3 * num_blocks + 1));
  step.updates(static_cast<uint32_t>(update), static_cast<uint32_t>(3 * num_blocks));
  for (int block = 0; block < num_blocks; ++block) {
    const uint64_t size = 1 + random() % 1000;
    const int backward = 2 * loss - block, updated = update + block;
    step.item(kSaved, 1 + random() % 2000, {written(block), backward});
    step.item(kHome, size, {block, backward, written(updated)});
    step.item(kState, 2 * size, {written(updated)});
    step.item(TSR_BUFFER_GRADIENT, size, {written(backward), updated});
    step.operations(static_cast<uint32_t>(block), static_cast<double>(random() % 100));
  }
  for (uint32_t i = random() % 5; i > 0; --i) {
    std::set<int> visits;
    while (visits.size() < 2 + i % 2)
      visits.insert(static_cast<int>(random() % (3 * static_cast<uint32_t>(num_blocks))));
    std::vector<int> uses(visits.begin(), visits.end());
    uses[0] = written(uses[0]);
    step.item(TSR_BUFFER_PLUGIN, 1 + random() % 3000, uses);
  }
  return step;
}

TEST(FitOfRandomSteps, FitsAndMovesNothingThatCouldStay) {
  int num_refused = 0, num_fitting = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    Step step = random_step(random);
    const FitOptions options{.ahead = static_cast<uint32_t>(random() % 3),
                             .linger = static_cast<uint32_t>(random() % 3)};
    step.limit = step.peak({}) * (20 + random() % 80) / 100;
    Answers answers;
    try {
      answers = step.ask(options);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), TSR_E_RESOURCE_EXHAUSTED) << e.what();
      EXPECT_GT(step.peak(step.all_leaves(options)), step.limit) << "seed " << seed << ": " << e.what();
      ++num_refused;
      continue;
    }
    ++num_fitting;
    ASSERT_LE(step.peak(answers), step.limit) << "seed " << seed;
    // No item could stay in a gap. What rests elsewhere leaves after its last use for all its gaps.
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool is_followed = i + 1 < answers.size() && answers[i + 1].buffer == answers[i].buffer;
      const bool is_only = !is_followed && (i == 0 || answers[i - 1].buffer != answers[i].buffer);
      if (!is_followed && !is_only) continue;
      Answers fewer = answers;
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_GT(step.peak(fewer), step.limit) << "seed " << seed << ": " << texts(answers)[i];
    }
  }
  EXPECT_GT(num_refused, 100);
  EXPECT_GT(num_fitting, 1000);
}

// A search through all items in each round would be at it for hours.
TEST(FitOfALargeStep, IsChosenGapByGap) {
  constexpr int kNumBlocks = 5'000, kPerBlock = 8;
  Step step(2 * kNumBlocks);
  for (int block = 0; block < kNumBlocks; ++block)
    for (int i = 0; i < kPerBlock; ++i)
      step.item(kSaved, 1000 + static_cast<uint64_t>(i), {written(block), 2 * kNumBlocks - 1 - block});
  step.limit = uint64_t{kNumBlocks} * kPerBlock * 100;
  EXPECT_GT(step.ask().size(), size_t{kNumBlocks} * kPerBlock * 8 / 10);
}

}  // namespace
}  // namespace tessera::testing
