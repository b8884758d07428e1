// Which ranks are matched for which, and what is found when ranks of one class may not be taken as one.
#include <algorithm>

#include <gtest/gtest.h>

#include "support/expect_diagnostic.h"
#include "support/program_builder.h"
#include "verify/collective_matching.h"
#include "verify/data_origin.h"

namespace tessera::testing {
using namespace host;
namespace {

const tsr_strategy_interface kSame{};
const tsr_strategy_interface kDifferent = [] {
  tsr_strategy_interface table{};
  table.struct_size = sizeof table;
  table.depends_on_coordinate = [](tsr_strategy*) noexcept { return 1u; };
  return table;
}();

/// Two stages of three ranks each; those of a stage do the same.
class MatchRanks : public ::testing::Test {
 protected:
  MatchRanks() {
    for (const int stage : {0, 1}) {
      Program p = empty_program(model_, mesh_, {stage, 0});
      x_ = persistent(p, "x", 6, TSR_BUFFER_PLUGIN);
      stages_.push_back(std::move(p));
    }
  }

  Action& on(int stage, uint32_t kind, const std::vector<Use>& uses, const Group& group) {
    Program& p = stages_[stage];
    Action& action = add_action(p, kind, p.comm_stream(group.axis, "test"), uses);
    action.group = p.group(group);
    return action;
  }
  void sum(int stage, const Group& group) {
    on(stage, TSR_ACTION_ALL_REDUCE, {add(x_)}, group).reduce = TSR_REDUCE_SUM;
  }
  void send_to_next(const Group& group, int peer_of_first, int peer_of_second) {
    on(0, TSR_ACTION_SEND, {read(x_)}, group).peer = peer_of_first;
    on(1, TSR_ACTION_RECV, {write(x_)}, group).peer = peer_of_second;
  }

  MatchedOps match() {
    const ProgramOf program = [&](int rank) -> const Program& { return stages_[rank / 3]; };
    DiagnosticList diagnostics;
    const MatchedOps matched = match_ranks(mesh_, matched_ranks(mesh_, classes_, program), program, diagnostics);
    diagnostics_ = diagnostics.take();
    return matched;
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"pp", 2, TSR_SPLITS_LAYERS}, {"dp", 3}}};
  const StrategyOnAxis strategies_[2] = {{"pp", 0, &kDifferent, nullptr}, {"dp", 1, &kSame, nullptr}};
  const RankClasses classes_{mesh_, strategies_};
  std::vector<Program> stages_;
  uint64_t x_ = 0;
  Diagnostics diagnostics_;
};

TEST_F(MatchRanks, OneOfEachClassWhereGroupsAreWhole) {
  for (const int stage : {0, 1}) {
    sum(stage, {1, {}});
    sum(stage, {TSR_WORLD_AXIS, {}});
    sum(stage, {0, {0, 1}});
  }
  send_to_next({0, {}}, 1, 0);
  const MatchedOps matched = match();
  EXPECT_TRUE(is_clean(diagnostics_));
  EXPECT_EQ(matched.ranks, (std::vector<int>{0, 3}));
  EXPECT_EQ(matched.collectives.size(), 4u);  // the sum over dp is one match in each class
  ASSERT_EQ(matched.transfers.size(), 1u);
  EXPECT_EQ(matched.transfers[0].receiver.rank, 3);
}

TEST_F(MatchRanks, AnAllToAllIsOneMatch) {
  for (const int stage : {0, 1})
    on(stage, TSR_ACTION_ALL_TO_ALL, {read(x_), write(persistent(stages_[stage], "y", 6, TSR_BUFFER_PLUGIN))}, {1, {}});
  const MatchedOps matched = match();
  EXPECT_TRUE(is_clean(diagnostics_));
  EXPECT_EQ(matched.collectives.size(), 2u);  // one in each stage
}

TEST_F(MatchRanks, RanksMayGiveOneAnotherPartsOfDifferentParameters) {
  for (const int stage : {0, 1}) {
    Program& p = stages_[stage];
    const uint64_t value = persistent(p, "value", 6);
    Home home{p.next_id++, "home", 0, {{stage, 0, 0, 6, 0}}, 6, {}};
    home.roles[TSR_HOME_VALUE] = {value, 0, 6};
    p.homes = {home};
    on(stage, TSR_ACTION_ALL_TO_ALL, {read(value), write(x_)}, {TSR_WORLD_AXIS, {}});
  }
  match();
  EXPECT_TRUE(is_clean(diagnostics_));
}

/// What a rank receives is then in the counts of the others, each of its own.
TEST_F(MatchRanks, AnUnevenOneIsMatchedOneByOne) {
  const Group world{TSR_WORLD_AXIS, {}};
  for (const int stage : {0, 1})
    on(stage, TSR_ACTION_ALL_TO_ALL, {read(x_), write(persistent(stages_[stage], "y", 6, TSR_BUFFER_PLUGIN))}, world);
  EXPECT_EQ(match().ranks.size(), 2u);
  for (Program& stage : stages_)
    stage.actions.back().counts = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(match().ranks.size(), 6u);
}

TEST_F(MatchRanks, SoIsOneThatFollowsAnEvenOne) {
  const Group world{TSR_WORLD_AXIS, {}};
  for (const int stage : {0, 1}) {
    const uint64_t y = persistent(stages_[stage], "y", 6, TSR_BUFFER_PLUGIN);
    on(stage, TSR_ACTION_ALL_TO_ALL, {read(x_), write(y)}, world);
    on(stage, TSR_ACTION_ALL_TO_ALL, {read(x_), write(y)}, world).counts = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  }
  EXPECT_EQ(match().ranks.size(), 6u);
}

TEST_F(MatchRanks, FindingsNameTheFirstRanksOfTheClasses) {
  sum(0, {0, {}});
  sum(0, {0, {}});
  sum(1, {0, {}});
  match();
  EXPECT_TRUE(has_diagnostic(diagnostics_, "rank 3 issues 1 collectives on comm.pp.test, rank 0 issues 2"));
}

TEST_F(MatchRanks, OneGroupUnderTwoNamesIsTwoCommunicators) {
  sum(0, {0, {}});
  sum(1, {0, {0, 1}});
  match();
  EXPECT_TRUE(has_diagnostic(diagnostics_,
                             "rank 3 issues 0 collectives on comm.pp.test, rank 0 issues 1; the first extra is "
                             "rank 0 #0 comm.pp.test all_reduce x, in group pp"));
  EXPECT_TRUE(has_diagnostic(diagnostics_,
                             "rank 0 issues 0 collectives on comm.pp.test, rank 3 issues 1; the first extra is "
                             "rank 3 #0 comm.pp.test all_reduce x, in group pp {0,1}"));
}

TEST_F(MatchRanks, ARankOutsideAGroupIsToldSo) {
  sum(0, {1, {0, 1}});
  const MatchedOps matched = match();
  EXPECT_EQ(matched.ranks.size(), 6u);
  EXPECT_TRUE(
      has_diagnostic(diagnostics_, "rank 2 #0 comm.dp.test all_reduce x: rank 2 is outside its group dp {0,1}"));
}

TEST_F(MatchRanks, MessagesWithinAClassAreMatchedOneByOne) {
  const Group world{TSR_WORLD_AXIS, {}};
  send_to_next(world, 3, 0);  // all ranks of the first stage send to rank 3 alone
  EXPECT_EQ(match().ranks.size(), 6u);
  EXPECT_FALSE(diagnostics_.empty());
}

TEST_F(MatchRanks, SoAreExchanges) {
  for (const int stage : {0, 1}) {
    const uint64_t y = persistent(stages_[stage], "y", 6, TSR_BUFFER_PLUGIN);
    on(stage, TSR_ACTION_EXCHANGE, {read(x_), write(y)}, {TSR_WORLD_AXIS, {}}).peers = {3 - 3 * stage, 3 - 3 * stage};
  }
  EXPECT_EQ(match().ranks.size(), 6u);
  EXPECT_FALSE(diagnostics_.empty());
}

TEST(DataOrigins, OfAStagingBufferAreThoseOfWhatItIsACopyOf) {
  const Model model = toy_model();
  const Mesh mesh({{"pp", 2, TSR_SPLITS_LAYERS}});
  Program p = empty_program(model, mesh);
  const uint64_t x = transient(p, "x", 128),
                 staging = transient(p, "s", 64, TSR_BUFFER_STAGING, TSR_F32, TSR_MEMORY_HOST);
  Action& backward = add_action(p, TSR_ACTION_BACKWARD, 0, {write(x, TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0))});
  backward.segment = 1;
  backward.micro_batch = 2;
  add_action(p, TSR_ACTION_COPY, TSR_STREAM_COPY_OUT, {read(x).at(64, 64), write(staging)});
  EXPECT_EQ(origin_text(p, DataOrigins(p).of({staging, 0, 64, 0, 0})), "the gradient of x.0 mb=2[64:]");
}

}  // namespace
}  // namespace tessera::testing
