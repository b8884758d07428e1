// VectorClocks of ranks under a cost model: what starts when.
#include "plan/simulate.h"

#include <gtest/gtest.h>

#include <random>

#include "passes/dependencies.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

/// Ranks of one axis, each with buffers x, y. An action takes as long as its `scale` says.
class Simulate : public ::testing::Test {
 protected:
  Simulate() {
    for (int rank = 0; rank < 2; ++rank) {
      Program p = empty_program(model_, mesh_, {rank});
      x_ = persistent(p, "x", 8, TSR_BUFFER_PLUGIN);
      y_ = persistent(p, "y", 8, TSR_BUFFER_PLUGIN);
      ranks_.push_back(std::move(p));
    }
  }

  void compute(int rank, uint64_t buffer, double seconds) {
    add_action(ranks_[rank], TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {add(buffer)}).scale = seconds;
  }
  Action& on(int rank, uint32_t kind, const std::vector<Use>& uses, double seconds, std::string_view lane = "test") {
    Program& p = ranks_[rank];
    Action& action = add_action(p, kind, p.comm_stream(0, lane), uses);
    action.group = p.group({0, {}});
    action.scale = seconds;
    return action;
  }
  void message(int rank, uint32_t kind, uint64_t buffer, double seconds, std::string_view lane = "test") {
    on(rank, kind, {kind == TSR_ACTION_SEND ? read(buffer) : write(buffer)}, seconds, lane).peer = 1 - rank;
  }

  Simulation run(const RankClasses& classes) {
    for (Program& p : ranks_)
      derive_dependencies(p);
    return simulate(
        mesh_, classes, [&](int rank) -> const Program& { return ranks_.at(classes.representative(rank)); },
        [](const Program&, const Action& action) { return action.scale; });
  }
  void expect_times(int rank, const std::vector<std::pair<double, double>>& times) {
    const Simulation simulation = run(RankClasses(mesh_));
    const auto& found = simulation.of(rank);
    ASSERT_EQ(found.size(), times.size());
    for (size_t i = 0; i < times.size(); ++i) {
      EXPECT_EQ(found[i].start, times[i].first) << "rank " << rank << " action " << i;
      EXPECT_EQ(found[i].end, times[i].second) << "rank " << rank << " action " << i;
    }
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 2}}};
  std::vector<Program> ranks_;
  uint64_t x_ = 0, y_ = 0;
};

TEST_F(Simulate, StreamsAndDependencies) {
  compute(0, x_, 2);
  compute(0, y_, 3);
  on(0, TSR_ACTION_ALL_REDUCE, {add(x_)}, 4).reduce = TSR_REDUCE_SUM;
  compute(0, x_, 1);
  on(1, TSR_ACTION_ALL_REDUCE, {add(x_)}, 4).reduce = TSR_REDUCE_SUM;
  expect_times(0, {{0, 2}, {2, 5}, {2, 6}, {6, 7}});
  expect_times(1, {{2, 6}});
  EXPECT_EQ(run(RankClasses(mesh_)).end(), 7);
}

TEST_F(Simulate, CollectivesWaitForAllAndTakeTheSlowestsTime) {
  compute(0, x_, 5);
  on(0, TSR_ACTION_ALL_REDUCE, {add(x_)}, 1).reduce = TSR_REDUCE_SUM;
  compute(1, x_, 2);
  on(1, TSR_ACTION_ALL_REDUCE, {add(x_)}, 3).reduce = TSR_REDUCE_SUM;
  expect_times(0, {{0, 5}, {5, 8}});
  expect_times(1, {{0, 2}, {5, 8}});
}

TEST_F(Simulate, MessagesWaitForBothEndsAndHoldTheirStream) {
  compute(0, x_, 1);
  message(0, TSR_ACTION_SEND, x_, 2);
  message(0, TSR_ACTION_SEND, y_, 2);
  compute(0, y_, 4);  // must not change what is sent
  compute(1, x_, 6);
  message(1, TSR_ACTION_RECV, x_, 0);
  message(1, TSR_ACTION_RECV, y_, 0);
  expect_times(0, {{0, 1}, {6, 8}, {8, 10}, {10, 14}});
  expect_times(1, {{0, 6}, {6, 8}, {8, 10}});
}

TEST_F(Simulate, ASlowReceiverHoldsUpItsSender) {
  message(0, TSR_ACTION_SEND, x_, 2);
  message(1, TSR_ACTION_RECV, x_, 7);
  expect_times(0, {{0, 7}});
  expect_times(1, {{0, 7}});
}

TEST_F(Simulate, ExchangesStartWhenTheirPeersAreThere) {
  for (int rank = 0; rank < 2; ++rank) {
    compute(rank, x_, rank + 1);
    on(rank, TSR_ACTION_EXCHANGE, {read(x_), write(y_)}, 3).peers = {1 - rank, 1 - rank};
  }
  expect_times(0, {{0, 1}, {2, 5}});
  expect_times(1, {{0, 2}, {2, 5}});
}

TEST_F(Simulate, RanksOfOneClassRunAtTheSameTime) {
  for (int rank = 0; rank < 2; ++rank) {
    compute(rank, x_, 2);
    on(rank, TSR_ACTION_ALL_REDUCE, {add(x_)}, 3).reduce = TSR_REDUCE_SUM;
  }
  const tsr_strategy_interface silent{};
  const StrategyOnAxis same{"same", 0, &silent, nullptr};
  const Simulation simulation = run(RankClasses(mesh_, {&same, 1}));
  EXPECT_EQ(simulation.intervals.size(), 1u);
  EXPECT_EQ(simulation.of(1)[1].start, 2);
  EXPECT_EQ(simulation.end(), 5);
}

/// Actions on several streams of one rank; the stream tells what an action keeps busy.
class SimulateShared : public Simulate {
 protected:
  SimulateShared() : fetch_(ranks_[0].device_stream("fetch")) {}

  void copy(uint64_t buffer, double seconds) {
    add_action(ranks_[0], TSR_ACTION_ZERO, fetch_, {add(buffer)}).scale = seconds;
  }
  std::vector<std::pair<double, double>> times(double speed_together) {
    for (Program& p : ranks_)
      derive_dependencies(p);
    const Sharing sharing = {[this](const Program&, const Action& action) {
                               return action.stream == fetch_ ? Resource::copy_in : Resource::compute;
                             },
                             [=](Resource, const ResourceSet& running) {
                               const bool both = running.has(Resource::copy_in) && running.has(Resource::compute);
                               return both ? speed_together : 1;
                             }};
    const RankClasses classes(mesh_);
    const Simulation simulation = simulate(
        mesh_, classes, [&](int rank) -> const Program& { return ranks_.at(rank); },
        [](const Program&, const Action& action) { return action.scale; }, sharing);
    std::vector<std::pair<double, double>> all;
    for (const Interval& interval : simulation.of(0))
      all.emplace_back(interval.start, interval.end);
    return all;
  }

  const uint32_t fetch_;
};

using Times = std::vector<std::pair<double, double>>;

TEST_F(SimulateShared, WorkThatRunsTogetherSlowsDown) {
  compute(0, x_, 2);
  copy(y_, 1);
  EXPECT_EQ(times(1), (Times{{0, 2}, {0, 1}}));
  // Half as fast while both run: the copy needs 2, and leaves 1 of compute.
  EXPECT_EQ(times(0.5), (Times{{0, 3}, {0, 2}}));
}

TEST_F(SimulateShared, SpeedsChangeWithEveryStartAndEnd) {
  compute(0, x_, 1);
  copy(x_, 2);        // waits for compute
  compute(0, y_, 4);  // beside the copy from 1 on, alone from 5 on
  EXPECT_EQ(times(0.5), (Times{{0, 1}, {1, 5}, {1, 7}}));
}

// It keeps the first of its ranks busy: 3 of both at half speed take 6, and the copy goes on alone.
TEST_F(SimulateShared, ACollectiveSharesWithItsFirstRank) {
  copy(y_, 4);
  on(0, TSR_ACTION_ALL_REDUCE, {add(x_)}, 3).reduce = TSR_REDUCE_SUM;
  on(1, TSR_ACTION_ALL_REDUCE, {add(x_)}, 3).reduce = TSR_REDUCE_SUM;
  EXPECT_EQ(times(0.5), (Times{{0, 7}, {0, 6}}));
}

TEST_F(SimulateShared, WithoutLossesItIsTheLongestPath) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const uint64_t buffer = random() % 2 ? x_ : y_;
    const double seconds = random() % 5;
    if (random() % 3 == 0)
      copy(buffer, seconds);
    else
      compute(0, buffer, seconds);
  }
  const Times shared = times(1);
  const Simulation alone = run(RankClasses(mesh_));
  for (size_t i = 0; i < shared.size(); ++i) {
    EXPECT_EQ(shared[i].first, alone.of(0)[i].start) << i;
    EXPECT_EQ(shared[i].second, alone.of(0)[i].end) << i;
  }
}

}  // namespace
}  // namespace tessera::testing
