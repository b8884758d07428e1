// VectorClocks of ranks under a cost model: what starts when.
#include "plan/simulate.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tessera::testing
