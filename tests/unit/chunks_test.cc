// Homes cut into chunks, of homes made by hand: what is joined, where it is cut, what stays.
// chunks_property_test.cc has random ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/homes_by_hand.h"

namespace tessera::testing {
namespace {

using Homes = HomesByHand;
using Texts = std::vector<std::string>;

TEST(Chunks, JoinHomesThatAreSideBySideAndSkipPads) {
  Homes homes(4096);
  EXPECT_EQ(homes.add(0, 1000).add(1024, 500).add(1536, 100).cut(4096).texts(), (Texts{"wte 0:1636"}));
  EXPECT_EQ(homes.program.homes[0].pieces.size(), 3u);
  EXPECT_EQ(homes.program.homes[0].pieces[2].home_offset, 1536u);
  EXPECT_EQ(homes.program.actions.size(), 3u) << "sum_squares, clip, optimizer";
}

TEST(Chunks, DoNotJoinHomesWhoseDistanceDiffersBetweenRoles) {
  for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V}) {
    Homes homes(4096);
    homes.add(0, 1000).add(1024, 500).move(1, role, 2000);
    EXPECT_EQ(homes.cut(4096).program.homes.size(), 2u) << role;
  }
}

TEST(Chunks, DoNotJoinWhatComesBeforeOrOverlaps) {
  EXPECT_EQ(Homes(4096).add(1024, 500).add(0, 1000).cut(4096).texts(), (Texts{"home0 1024:500", "home1 0:1000"}));
  EXPECT_EQ(Homes(4096).add(0, 1000).add(999, 500).cut(4096).texts(), (Texts{"home0 0:1000", "home1 999:500"}));
}

TEST(Chunks, DoNotJoinHomesOfOtherBuffers) {
  Homes homes(4096);
  homes.add(0, 1000).add(1024, 500);
  homes.program.homes[1].roles[TSR_HOME_V].buffer = persistent(homes.program, "other", 4096);
  EXPECT_EQ(homes.cut(4096).program.homes.size(), 2u);
}

TEST(Chunks, AreCutAtMultiplesOf4096Bytes) {
  EXPECT_EQ(Homes(8192).add(0, 5000).cut(2 * kCut).texts(),
            (Texts{"home0/0 0:2048", "home0/1 2048:2048", "home0/2 4096:904"}));
  EXPECT_EQ(Homes(8192).add(100, 5000).cut(2 * kCut).texts(),
            (Texts{"home0/0 100:1948", "home0/1 2048:2048", "home0/2 4096:1004"}))
      << "of the buffer, not of the home";
}

// Direct I/O is about the state, which is what leaves; a value may lie elsewhere.
TEST(Chunks, AreCutWhereTheStateIsAligned) {
  EXPECT_EQ(Homes(8192, 24).add(0, 3000).cut(kCut).texts(),
            (Texts{"home0/0 24:1000", "home0/1 1024:1024", "home0/2 2048:976"}));
  Homes sgd(8192);
  sgd.add(100, 1500);
  sgd.add_updates();
  sgd.program.homes[0].roles[TSR_HOME_M] = sgd.program.homes[0].roles[TSR_HOME_V] = {};
  std::erase_if(sgd.program.actions[2].bindings,
                [](const Binding& b) { return TSR_SLOT_ROLE(b.slot) == TSR_ROLE_STATE; });
  cut_homes(sgd.program, kCut * sizeof(float));
  EXPECT_EQ(sgd.texts(), (Texts{"home0/0 100:924", "home0/1 1024:576"})) << "without state: of the value";
}

TEST(Chunks, AreAtLeast4096BytesAndRoundedDownToThat) {
  for (const uint64_t chunk : {1ul, kCut - 1, kCut, kCut + 1, 2 * kCut - 1})
    EXPECT_EQ(Homes(4096).add(0, 2000).cut(chunk).texts(), (Texts{"home0/0 0:1024", "home0/1 1024:976"})) << chunk;
}

TEST(Chunks, LeaveAHomeThatFitsAlone) {
  Homes homes(4096);
  homes.add(0, 1000).add_updates();
  const uint64_t home = homes.program.homes[0].id, action = homes.program.actions[0].id;
  cut_homes(homes.program, 4096 * sizeof(float));
  EXPECT_EQ(homes.program.homes[0].id, home);
  EXPECT_EQ(homes.program.homes[0].name, "home0");
  EXPECT_EQ(homes.program.actions[0].id, action);
}

// Of a gradient that a strategy keeps elsewhere, say.
TEST(Chunks, LeaveAHomeWhoseUpdateUsesOtherRanges) {
  Homes homes(8192);
  homes.add(0, 2000).add(4096, 3000).add_updates();
  const uint64_t home = homes.program.homes[0].id;
  const uint64_t elsewhere = transient(homes.program, "elsewhere", 2000);
  for (Action& action : homes.program.actions)
    if (action.home == home && action.kind == TSR_ACTION_OPTIMIZER)
      for (Binding& b : action.bindings)
        if (TSR_SLOT_ROLE(b.slot) == TSR_ROLE_SOURCE) b.buffer = elsewhere;
  cut_homes(homes.program, kCut * sizeof(float));
  EXPECT_EQ(homes.texts(), (Texts{"home0 0:2000", "home1/0 4096:1024", "home1/1 5120:1024", "home1/2 6144:952"}));
  for (const Action& action : homes.program.actions)
    for (const Binding& b : action.bindings)
      EXPECT_TRUE(b.buffer != elsewhere || b.num_elements == 2000);
}

/// The optimizer of the home takes its gradient from elsewhere.
void update_from_elsewhere(Program& program, size_t home) {
  const uint64_t num_elements = program.homes[home].num_elements;
  const uint64_t elsewhere = transient(program, "elsewhere", num_elements);
  for (Action& action : program.actions)
    if (action.home == program.homes[home].id && action.kind == TSR_ACTION_OPTIMIZER)
      for (Binding& b : action.bindings)
        if (TSR_SLOT_ROLE(b.slot) == TSR_ROLE_SOURCE) b = {elsewhere, 0, num_elements, b.slot, b.mode};
}

// What lies between homes that become one is padding. A home there would have its elements in two.
TEST(Chunks, LeaveAHomeWhoseUpdateUsesAnotherPartOfItsBuffers) {
  for (const uint64_t offset : {0, 1}) {
    Homes homes(8192);
    homes.add(0, 2000).add_updates();
    for (Action& action : homes.program.actions)
      for (Binding& b : action.bindings)
        if (action.kind == TSR_ACTION_OPTIMIZER && TSR_SLOT_ROLE(b.slot) == TSR_ROLE_SOURCE)
          b.offset += offset, b.num_elements -= 1 - offset;
    cut_homes(homes.program, kCut * sizeof(float));
    EXPECT_EQ(homes.texts(), (Texts{"home0 0:2000"})) << offset;
  }
}

TEST(Chunks, DoNotJoinHomesOverOneThatStaysWhole) {
  Homes homes(4096);
  homes.add(0, 500).add(512, 500).add(1024, 500).add(1536, 500).add_updates();
  update_from_elsewhere(homes.program, 1);
  cut_homes(homes.program, 4096 * sizeof(float));
  EXPECT_EQ(homes.texts(), (Texts{"home0 0:500", "home1 512:500", "wte 1024:1012"}));
}

TEST(Chunks, DoNotJoinHomesOverOneThatComesLaterInTheList) {
  EXPECT_EQ(Homes(4096).add(0, 500).add(1024, 500).add(1536, 500).add(512, 500).cut(4096).texts(),
            (Texts{"home0 0:500", "home3 512:500", "wte 1024:1012"}));
}

TEST(Chunks, DoNotJoinHomesOverOneThatNothingUpdates) {
  EXPECT_EQ(Homes(4096).add(0, 500).add(512, 500, Homes::kBias, false).add(1024, 500).cut(4096).texts(),
            (Texts{"home0 0:500", "home1 512:500", "home2 1024:500"}));
}

TEST(Chunks, LeaveWhatNothingUpdatesAndComeAfterIt) {
  Homes homes(8192);
  const Texts texts = homes.add(0, 3000).add(4096, 1000, Homes::kBias, false).cut(2 * kCut).texts();
  EXPECT_EQ(texts, (Texts{"home1 4096:1000", "home0/0 0:2048", "home0/1 2048:952"}));
  EXPECT_TRUE(std::ranges::is_sorted(homes.program.homes, {}, &Home::id));
}

TEST(Chunks, KeepWhichElementsTheirPiecesAreOf) {
  const Homes homes = Homes(8192).add(0, 1000).add(1010, 1500, Homes::kBias).cut(kCut);
  ASSERT_EQ(homes.texts(), (Texts{"wte/0 0:1024", "wte/1 1024:1024", "wte/2 2048:462"}));
  const auto expect = [&](const tsr_piece& piece, int parameter, uint64_t from, uint64_t num, uint64_t at) {
    EXPECT_EQ(piece.parameter, parameter);
    EXPECT_EQ(piece.parameter_offset, from);
    EXPECT_EQ(piece.num_elements, num);
    EXPECT_EQ(piece.home_offset, at);
  };
  ASSERT_EQ(homes.program.homes[0].pieces.size(), 2u);
  expect(homes.program.homes[0].pieces[0], Homes::kMatrix, 0, 1000, 0);
  expect(homes.program.homes[0].pieces[1], Homes::kBias, 100, 14, 1010);
  ASSERT_EQ(homes.program.homes[1].pieces.size(), 1u);
  expect(homes.program.homes[1].pieces[0], Homes::kBias, 114, 1024, 0);
  expect(homes.program.homes[2].pieces.at(0), Homes::kBias, 1138, 462, 0);
}

// Ranks of one class have one program, whatever part of a padded whole their slice is.
TEST(Chunks, OfPadsAloneAreLikeOthers) {
  Homes homes(8192), pads(8192);
  homes.add(0, 1500).add(1500, 100);
  pads.add(0, 1500).add(1500, 100);
  for (Home& home : pads.program.homes)
    home.pieces.clear();
  EXPECT_EQ(pads.cut(kCut).texts(), homes.cut(kCut).texts());
  EXPECT_EQ(pads.program.actions.size(), homes.program.actions.size());
}

// Squares are summed when the last gradient is complete; updates begin where the first one was.
TEST(Chunks, SumSquaresLastAndUpdateFirst) {
  Homes homes(4096);
  homes.add(0, 1000).add(1024, 500).add_updates();
  std::vector<Action>& actions = homes.program.actions;
  const auto put_after = [&](size_t at) {
    Action barrier;
    barrier.id = homes.program.next_id++;
    barrier.kind = TSR_ACTION_BARRIER;
    actions.insert(actions.begin() + static_cast<int64_t>(at), barrier);
  };
  put_after(4);  // squares 0, squares 1, clip, optimizer 0, |, optimizer 1
  put_after(1);
  cut_homes(homes.program, kCut * sizeof(float));
  std::vector<std::string> kinds;
  for (const Action& action : actions)
    kinds.emplace_back(action_name(action.kind));
  EXPECT_EQ(kinds, (Texts{"barrier", "sum_squares", "sum_squares", "clip", "optimizer", "optimizer", "barrier"}));
}

// A sum over stages is of a whole home, as before.
TEST(Chunks, LeaveSumsOverStagesTheirRange) {
  Homes homes(4096);
  homes.add(0, 3000).add_updates();
  const Home home = homes.program.homes[0];
  Action sum = homes.program.actions[0];
  sum.kind = TSR_ACTION_ALL_REDUCE;
  homes.program.actions.insert(homes.program.actions.begin(), sum);
  cut_homes(homes.program, kCut * sizeof(float));
  EXPECT_EQ(homes.program.actions[0].home, 0u);
  EXPECT_EQ(homes.program.actions[0].bindings[0].num_elements, 3000u);
  EXPECT_EQ(homes.program.actions[0].bindings[0].offset, 0u);
  EXPECT_EQ(homes.program.homes.size(), 3u);
}

}  // namespace
}  // namespace tessera::testing
