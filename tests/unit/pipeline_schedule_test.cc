// Each stage's items in each schedule, and what a stage may ask for early.
#include "schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "support/expect_error.h"

namespace tessera::pipeline {
namespace {

using testing::expect_error;

struct Case {
  Schedule schedule;
  Shape shape;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int stages = 1; stages <= 6; ++stages) {
    for (int micro_batches = 1; micro_batches <= 13; ++micro_batches)
      for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
        all.push_back({schedule, {stages, 1, micro_batches}});
    for (int chunks = 2; stages > 1 && chunks <= 4; ++chunks)
      for (int micro_batches = stages; micro_batches <= 4 * stages; micro_batches += stages)
        all.push_back({Schedule::interleaved, {stages, chunks, micro_batches}});
  }
  return all;
}

std::string text(const Case& c) {
  return "schedule " + std::to_string(static_cast<int>(c.schedule)) + ", stages " + std::to_string(c.shape.num_stages) +
         ", chunks " + std::to_string(c.shape.num_chunks) + ", micro-batches " +
         std::to_string(c.shape.num_micro_batches);
}

TEST(Schedule, EachMicroBatchPassesEachChunkOnceForwardAndThenOnceBackward) {
  for (const Case& c : cases())
    for (int stage = 0; stage < c.shape.num_stages; ++stage) {
      std::set<std::pair<int, int>> forward, backward;
      for (const ScheduledAction& item : step_schedule(c.schedule, c.shape, stage)) {
        const std::pair key{item.micro_batch, item.chunk};
        EXPECT_TRUE((item.is_forward ? forward : backward).insert(key).second) << text(c);
        EXPECT_TRUE(forward.contains(key)) << text(c);
      }
      const auto all = static_cast<size_t>(c.shape.num_micro_batches * c.shape.num_chunks);
      EXPECT_EQ(forward.size(), all) << text(c);
      EXPECT_EQ(backward.size(), all) << text(c);
    }
}

// Gradients are added in the order of the backwards.
TEST(Schedule, BackwardsOfAChunkAscend) {
  for (const Case& c : cases())
    for (int stage = 0; stage < c.shape.num_stages; ++stage) {
      std::map<int, int> next;
      for (const ScheduledAction& item : step_schedule(c.schedule, c.shape, stage))
        if (!item.is_forward) {
          EXPECT_EQ(item.micro_batch, next[item.chunk]++) << text(c);
        }
    }
}

int most_in_flight(const Case& c, int stage) {
  int now = 0, most = 0;
  for (const ScheduledAction& item : step_schedule(c.schedule, c.shape, stage)) {
    now += item.is_forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

TEST(Schedule, MicroBatchesInFlight) {
  for (const Case& c : cases())
    for (int stage = 0; stage < c.shape.num_stages; ++stage) {
      const int from_here = c.shape.num_stages - stage, all = c.shape.num_micro_batches * c.shape.num_chunks;
      int expected = all;
      if (c.schedule == Schedule::one_f_one_b) expected = std::min(from_here, all);
      if (c.schedule == Schedule::interleaved)
        expected = std::min(2 * (from_here - 1) + (c.shape.num_chunks - 1) * c.shape.num_stages + 1, all);
      EXPECT_EQ(most_in_flight(c, stage), expected) << text(c) << ", stage " << stage;
    }
}

/// The stages' lists: items, and the messages that each asks for and sends, in the order in which the pass puts them.
class Lists {
 public:
  explicit Lists(const Case& c) : shape_(c.shape) {
    for (int stage = 0; stage < shape_.num_stages; ++stage) {
      auto& list = lists_.emplace_back();
      const std::vector<ScheduledAction> items = step_schedule(c.schedule, shape_, stage);
      bool is_received = false;
      for (size_t i = 0; i < items.size(); ++i) {
        if (!is_received) list.push_back({false, needed(stage, items[i])});
        is_received = i + 1 < items.size() && receives_early(c.schedule, shape_, stage, items[i], items[i + 1]);
        if (is_received) list.push_back({false, needed(stage, items[i + 1])});
        list.push_back({true, {items[i].is_forward, items[i].micro_batch, part(stage, items[i])}});
      }
    }
  }

  /// Every list from top to bottom, stages in turn, until none can go on.
  bool come_to_their_end() const {
    std::vector<size_t> at(lists_.size());
    std::set<Key> made;
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t s = 0; s < lists_.size(); ++s)
        while (at[s] < lists_[s].size()) {
          const auto& [makes, key] = lists_[s][at[s]];
          const auto [is_forward, micro_batch, part] = key;
          const bool is_message = part >= 0 && part < shape_.num_stages * shape_.num_chunks;
          if (!makes && is_message && !made.contains(key)) break;
          if (makes) made.insert(key);
          ++at[s];
          goes_on = true;
        }
    }
    for (size_t s = 0; s < lists_.size(); ++s)
      if (at[s] < lists_[s].size()) return false;
    return true;
  }

 private:
  using Key = std::tuple<bool, int, int>;  // forward, micro-batch, part
  int part(int stage, const ScheduledAction& item) const { return item.chunk * shape_.num_stages + stage; }
  Key needed(int stage, const ScheduledAction& item) const {
    return {item.is_forward, item.micro_batch, part(stage, item) + (item.is_forward ? -1 : 1)};
  }

  Shape shape_;
  std::vector<std::vector<std::pair<bool, Key>>> lists_;  // makes, or waits for
};

TEST(Schedule, StagesNeverWaitForOneAnother) {
  for (const Case& c : cases())
    EXPECT_TRUE(Lists(c).come_to_their_end()) << text(c);
}

TEST(Schedule, EvalIsTheForwardsOfAStep) {
  for (const Case& c : cases()) {
    std::vector<ScheduledAction> forwards = step_schedule(c.schedule, c.shape, 0);
    std::erase_if(forwards, [](const ScheduledAction& item) { return !item.is_forward; });
    EXPECT_EQ(eval_schedule(c.shape), forwards) << text(c);
  }
}

TEST(Schedule, AsPublished) {
  const auto items = [](Schedule schedule, Shape shape, int stage) {
    std::string text;
    for (const ScheduledAction& item : step_schedule(schedule, shape, stage))
      text += (item.is_forward ? "F" : "B") + std::to_string(item.micro_batch) +
              (shape.num_chunks > 1 ? std::string(1, static_cast<char>('a' + item.chunk)) : "") + " ";
    return text;
  };
  EXPECT_EQ(items(Schedule::gpipe, {2, 1, 3}, 0), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(items(Schedule::one_f_one_b, {3, 1, 4}, 0), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(items(Schedule::one_f_one_b, {3, 1, 4}, 2), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(items(Schedule::one_f_one_b, {4, 1, 2}, 0), "F0 F1 B0 B1 ");
  EXPECT_EQ(items(Schedule::interleaved, {2, 2, 4}, 1),
            "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a ");
}

TEST(Schedule, WhatDoesNotFitIsRefusedWithWhatDoes) {
  const auto check = [](Schedule schedule, Shape shape) { return [=] { check_fits(schedule, shape); }; };
  expect_error(check(Schedule::interleaved, {4, 2, 6}), {"multiples of its 4 stages: 4 or 8, not 6", "1f1b and gpipe"});
  expect_error(check(Schedule::interleaved, {4, 2, 3}), {"multiples of its 4 stages: 4, not 3"});
  expect_error(check(Schedule::interleaved, {4, 1, 4}), {"virtual-stages of 2 or more"});
  expect_error(check(Schedule::interleaved, {1, 2, 4}), {"an axis of 2 or more ranks"});
  expect_error(check(Schedule::one_f_one_b, {4, 2, 4}), {"virtual-stages=2 needs", "interleaved_1f1b"});
  EXPECT_NO_THROW(check_fits(Schedule::interleaved, {4, 2, 8}));
  EXPECT_NO_THROW(check_fits(Schedule::gpipe, {4, 1, 3}));
}

}  // namespace
}  // namespace tessera::pipeline
