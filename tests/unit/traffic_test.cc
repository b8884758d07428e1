// Bytes on the wire by the algorithms' formulas, and gathers per unit.
#include "plan/traffic.h"

#include <gtest/gtest.h>

#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kElements = 12;
constexpr uint64_t kBytes = kElements * sizeof(float);

/// Rank 1 of 4 with one buffer of 12 elements and one of 3.
class TrafficOfFour : public ::testing::Test {
 protected:
  Action& on(uint32_t kind, const std::vector<Use>& uses, const char* lane = "x") {
    Action& action = add_action(program_, kind, program_.comm_stream(0, lane), uses);
    action.group = program_.group({0, {}});
    return action;
  }
  uint64_t sent() const { return sent_bytes(program_, program_.actions.back()); }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 4}}};
  Program program_ = empty_program(model_, mesh_, {1});
  const uint64_t whole_ = transient(program_, "whole", kElements);
  const uint64_t slice_ = transient(program_, "slice", kElements / 4);
};

TEST_F(TrafficOfFour, CollectivesSendWhatTheirFormulasSay) {
  on(TSR_ACTION_ALL_REDUCE, {add(whole_)});
  EXPECT_EQ(sent(), 2 * kBytes * 3 / 4);
  on(TSR_ACTION_REDUCE_SCATTER, {read(whole_), write(slice_)});
  EXPECT_EQ(sent(), kBytes * 3 / 4);
  on(TSR_ACTION_ALL_GATHER, {read(slice_), write(whole_)});
  EXPECT_EQ(sent(), kBytes * 3 / 4);
  on(TSR_ACTION_ALL_TO_ALL, {read(whole_), write(transient(program_, "other", kElements))});
  EXPECT_EQ(sent(), kBytes * 3 / 4);
  on(TSR_ACTION_BARRIER, {});
  EXPECT_EQ(sent(), 0u);
}

TEST_F(TrafficOfFour, UnevenSlicesCountAsTheyAre) {
  const uint64_t five = transient(program_, "five", 5);
  on(TSR_ACTION_REDUCE_SCATTER, {read(whole_), write(five)}).counts = {1, 5, 0, 6};
  EXPECT_EQ(sent(), (12 - 5) * sizeof(float));
  on(TSR_ACTION_ALL_GATHER, {read(five), write(whole_)}).counts = {1, 5, 0, 6};
  EXPECT_EQ(sent(), 3 * 5 * sizeof(float));
}

TEST_F(TrafficOfFour, OnlyTheRootBroadcastsAndOnlyTheOthersSendToIt) {
  on(TSR_ACTION_BROADCAST, {read(whole_), write(slice_)}).peer = 1;
  EXPECT_EQ(sent(), 3 * kBytes);
  on(TSR_ACTION_BROADCAST, {write(whole_)}).peer = 0;
  EXPECT_EQ(sent(), 0u);
  on(TSR_ACTION_REDUCE, {read(whole_)}).peer = 0;
  EXPECT_EQ(sent(), kBytes);
  on(TSR_ACTION_REDUCE, {add(whole_)}).peer = 1;
  EXPECT_EQ(sent(), 0u);
}

TEST_F(TrafficOfFour, MessagesSendTheirSources) {
  on(TSR_ACTION_SEND, {read(slice_)}).peer = 2;
  EXPECT_EQ(sent(), kBytes / 4);
  on(TSR_ACTION_RECV, {write(slice_)}).peer = 2;
  EXPECT_EQ(sent(), 0u);
  on(TSR_ACTION_EXCHANGE, {read(whole_), write(slice_)}).peers = {0, 2};
  EXPECT_EQ(sent(), kBytes);
}

TEST_F(TrafficOfFour, IsCountedByStreamAndKind) {
  on(TSR_ACTION_ALL_REDUCE, {add(whole_)}, "b");
  on(TSR_ACTION_ALL_GATHER, {read(slice_), write(whole_)}, "a");
  on(TSR_ACTION_ALL_REDUCE, {add(whole_)}, "b");
  const auto traffic = traffic_of(program_);
  ASSERT_EQ(traffic.size(), 2u);
  EXPECT_EQ(traffic[0].stream, "comm.dp.a");
  EXPECT_EQ(traffic[1].stream, "comm.dp.b");
  EXPECT_EQ(traffic[1].kind, TSR_ACTION_ALL_REDUCE);
  EXPECT_EQ(traffic[1].num_actions, 2u);
  EXPECT_EQ(traffic[1].sent_bytes, 2 * (2 * kBytes * 3 / 4));
}

TEST_F(TrafficOfFour, AGroupOfOneSendsNothing) {
  const Mesh alone({{"dp", 1}});
  Program program = empty_program(model_, alone, {0});
  const uint64_t x = transient(program, "x", 4);
  Action& action = add_action(program, TSR_ACTION_ALL_REDUCE, program.comm_stream(0, "x"), {add(x)});
  action.group = program.group({0, {}});
  EXPECT_EQ(sent_bytes(program, action), 0u);
}

TEST_F(TrafficOfFour, AUnitGatheredTwiceIsSeen) {
  const auto forward = [&](int segment, uint64_t gathered) {
    Action& action =
        add_action(program_, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE, {read(gathered, TSR_SLOT(TSR_ROLE_PARAMETER, 0))});
    action.segment = segment;
    action.micro_batch = 0;
  };
  const int first = model_.segment("h.0.fc"), second = model_.segment("h.1.fc");
  for (const int segment : {first, second, first}) {
    const uint64_t gathered = transient(program_, "gathered", kElements, TSR_BUFFER_GATHERED);
    on(TSR_ACTION_ALL_GATHER, {read(slice_), write(gathered)});
    forward(segment, gathered);
  }
  const auto gathers = gathers_of(program_);
  ASSERT_EQ(gathers.size(), 2u);
  EXPECT_EQ(gathers[0].unit, "h.0");
  EXPECT_EQ(gathers[0].num_times, 2u);
  EXPECT_EQ(gathers[1].unit, "h.1");
  EXPECT_EQ(gathers[1].num_times, 1u);
}

TEST_F(TrafficOfFour, AUnitCutIntoManyCollectivesIsGatheredOnce) {
  const uint64_t gathered = transient(program_, "gathered", kElements, TSR_BUFFER_GATHERED);
  on(TSR_ACTION_BROADCAST, {write(gathered).at(0, 5)}).peer = 0;
  on(TSR_ACTION_BROADCAST, {write(gathered).at(5, 7)}).peer = 2;
  Action& action =
      add_action(program_, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE, {read(gathered, TSR_SLOT(TSR_ROLE_PARAMETER, 0))});
  action.segment = model_.segment("h.0.fc");
  const auto gathers = gathers_of(program_);
  ASSERT_EQ(gathers.size(), 1u);
  EXPECT_EQ(gathers[0].num_times, 1u);
  EXPECT_EQ(gathers[0].num_collectives, 2u);
}

}  // namespace
}  // namespace tessera::testing
