// zero3's owners: which rank gets which tensor, and what moves at once.
#include "zero3.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "owner_pass.h"
#include "support/expect_error.h"
#include "support/gpt2_pass.h"

namespace tessera::testing {
namespace {

using zero3::assign_owners;
using zero3::owned_ranges;
using zero3::Partition;
using zero3::Zero3;

std::vector<tsr_parameter> parameters(std::initializer_list<uint64_t> sizes) {
  std::vector<tsr_parameter> result;
  for (const uint64_t size : sizes) {
    tsr_parameter parameter{};
    parameter.num_elements = size;
    result.push_back(parameter);
  }
  return result;
}
using Owners = std::vector<int>;

TEST(Owners, BalancedGivesTheLargestToWhoHasLeast) {
  // 9 -> 0, 7 -> 1, 6 -> 2, 5 -> 2, 2 -> 1, 1 -> 0 (9 beside 9 and 11), 1 -> 1
  EXPECT_EQ(assign_owners(parameters({1, 9, 2, 7, 6, 5, 1}), 3, Partition::balanced), (Owners{0, 0, 1, 1, 2, 2, 1}));
}

// wte of 10, two blocks of 3 + 2 + 1: with four ranks the owner of wte has most in any case.
TEST(Owners, BalancedKeepsUnitsTogetherWhereNoRankThenOwnsMore) {
  std::vector<tsr_parameter> all = parameters({10, 3, 2, 1, 3, 2, 1});
  for (size_t p = 1; p < all.size(); ++p)
    all[p].unit = p < 4 ? 1 : 2;
  EXPECT_EQ(assign_owners(all, 4, Partition::balanced), (Owners{0, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(assign_owners(all, 3, Partition::balanced), (Owners{0, 1, 1, 1, 2, 2, 2}));
  // Of two ranks one would own 12 and one 10, where tensors give 11 and 11.
  EXPECT_EQ(assign_owners(all, 2, Partition::balanced), (Owners{0, 1, 1, 0, 1, 1, 1}));
}

TEST(Owners, ContiguousCutsTheModelIntoRuns) {
  EXPECT_EQ(assign_owners(parameters({4, 4, 4, 4, 4, 4}), 3, Partition::contiguous), (Owners{0, 0, 1, 1, 2, 2}));
  // One tensor is more than a share: others' shares stay empty.
  EXPECT_EQ(assign_owners(parameters({1, 100, 1, 1}), 4, Partition::contiguous), (Owners{0, 1, 3, 3}));
}

TEST(Owners, RoundRobinTakesTurns) {
  EXPECT_EQ(assign_owners(parameters({5, 1, 7, 2, 2}), 2, Partition::round_robin), (Owners{0, 1, 0, 1, 0}));
}

TEST(Owners, EveryPartitionWorksForAnyNumberOfRanks) {
  for (const Partition partition : {Partition::balanced, Partition::contiguous, Partition::round_robin})
    for (const int num_ranks : {1, 2, 7, 40})
      for (const int owner : assign_owners(parameters({3, 0, 1000, 1, 1, 12}), num_ranks, partition)) {
        EXPECT_GE(owner, 0);
        EXPECT_LT(owner, num_ranks);
      }
}

TEST(Owners, BalancedIsNeverWorseThanItsLargestTensorAboveTheMean) {
  const auto sizes = {768, 128, 16, 16, 768, 48, 256, 16, 16, 16, 512, 32, 512, 16};
  std::vector<tsr_parameter> all;
  for (const int size : sizes)
    all.push_back(parameters({static_cast<uint64_t>(size)}).front());
  for (const int num_ranks : {2, 3, 4}) {
    std::vector<uint64_t> load(static_cast<size_t>(num_ranks));
    const Owners owners = assign_owners(all, num_ranks, Partition::balanced);
    for (size_t p = 0; p < owners.size(); ++p)
      load[static_cast<size_t>(owners[p])] += all[p].num_elements;
    const uint64_t total = std::accumulate(load.begin(), load.end(), uint64_t{0});
    EXPECT_LE(*std::ranges::max_element(load), total / static_cast<uint64_t>(num_ranks) + 768);
  }
}

// ---- ranges ----

TEST(Runs, NeighborsOfOneOwnerMoveTogether) {
  const Gpt2Pass gpt2(2);
  gpt2.look_at([&](const ProgramView& view, const Edit&) {
    storage::ParamGroup block;
    block.add(storage::flat_params(view)[2]);  // h.0
    const auto& homes = block.first().homes;
    ASSERT_GE(homes.size(), 5u);
    Owners owners(view.parameters().size(), 0);
    for (const size_t i : {2, 3})
      owners[static_cast<size_t>(homes[i]->pieces[0].parameter)] = 1;
    const auto ranges = owned_ranges(block, owners);
    ASSERT_EQ(ranges.size(), 3u);
    const auto offset = [&](size_t i) { return homes[i]->roles[TSR_HOME_VALUE].offset; };
    EXPECT_EQ(ranges[0].owner, 0);
    EXPECT_EQ(ranges[1].owner, 1);
    EXPECT_EQ(ranges[2].owner, 0);
    EXPECT_EQ(ranges[0].begin, 0u);
    EXPECT_EQ(ranges[0].end, offset(2));
    EXPECT_EQ(ranges[1].begin, offset(2));
    EXPECT_EQ(ranges[1].end, offset(4));
    EXPECT_EQ(ranges[2].end, block.num_elements);
    // At its owner a range follows the owner's ranges before it.
    EXPECT_EQ(ranges[0].own_begin, 0u);
    EXPECT_EQ(ranges[1].own_begin, 0u);
    EXPECT_EQ(ranges[2].own_begin, ranges[0].num_elements());
    EXPECT_EQ(ranges[1].homes.size(), 2u);
  });
}

/// Of which this rank has no element.
TEST(Runs, AHomeOfNothingIsInNone) {
  const Gpt2Pass gpt2(2);
  const auto look = [&](const ProgramView& view, const Edit&) {
    storage::ParamGroup block;
    block.add(storage::flat_params(view)[2]);  // h.0
    const auto ranges = owned_ranges(block, Owners(view.parameters().size(), 0));
    ASSERT_EQ(ranges.size(), 1u);
    EXPECT_EQ(ranges[0].homes.size(), block.first().homes.size() - 1);
    EXPECT_EQ(ranges[0].num_elements(), block.num_elements);
  };
  gpt2.look_at(look, TSR_PURPOSE_STEP, [](Program& program) {
    const auto bias = std::ranges::find(program.homes, "h.0.ln_1.bias", &Home::name);
    ASSERT_NE(bias, program.homes.end());
    bias->pieces.clear();
  });
}

// ---- programs ----

Zero3 make(int64_t stage, const char* partition = "balanced", const char* reshard = "true", int64_t limit = 0) {
  return Zero3("dp", OptionValues{{"stage", "", stage},
                                  {"partition", partition},
                                  {"reshard-after-forward", reshard},
                                  {"prefetch", "", 1},
                                  {"backward-prefetch", "pre"},
                                  {"limit-all-gathers", "", limit}});
}

TEST(Zero3, OptionsOfGatheringAreForStage3) {
  for (const int stage : {1, 2}) {
    expect_error([&] { make(stage, "balanced", "false"); }, {"need zero3.stage=3"});
    expect_error([&] { make(stage, "balanced", "true", 2); }, {"need zero3.stage=3"});
  }
  expect_error([&] { make(3, "balanced", "false", 2); }, {"needs zero3.reshard-after-forward=true"});
}

TEST(Zero3, EveryParameterHasOneHomeInTheJob) {
  for (const int stage : {1, 2, 3})
    for (const char* partition : {"balanced", "contiguous", "round_robin"})
      for (const int num_ranks : {1, 3, 40}) {  // 28 tensors
        const Gpt2Pass gpt2(num_ranks);
        std::multiset<int> owned;
        for (int rank = 0; rank < num_ranks; ++rank)
          for (const Home& home : gpt2.lowered(make(stage, partition), rank).homes)
            for (const tsr_piece& piece : home.pieces) {
              EXPECT_EQ(piece.num_elements, gpt2.model().parameters[static_cast<size_t>(piece.parameter)].num_elements);
              owned.insert(piece.parameter);
            }
        EXPECT_EQ(owned.size(), gpt2.model().parameters.size());
        EXPECT_EQ(std::set<int>(owned.begin(), owned.end()).size(), owned.size());
      }
}

size_t count(const Program& program, uint32_t kind) {
  return static_cast<size_t>(std::ranges::count(program.actions, kind, &Action::kind));
}

TEST(Zero3, StagesMoveWhatTheirNameSays) {
  const auto step = [](int stage) { return Gpt2Pass(3).lowered(make(stage), 1); };
  EXPECT_EQ(count(step(1), TSR_ACTION_ALL_REDUCE), 5u);  // gradients summed everywhere
  EXPECT_EQ(count(step(1), TSR_ACTION_REDUCE), 0u);
  EXPECT_EQ(count(step(2), TSR_ACTION_ALL_REDUCE), 0u);
  EXPECT_GT(count(step(2), TSR_ACTION_REDUCE), 5u);
  EXPECT_EQ(count(step(2), TSR_ACTION_REDUCE), count(step(2), TSR_ACTION_BROADCAST));  // of ranges, and back as values
  EXPECT_EQ(count(step(3), TSR_ACTION_REDUCE), count(step(2), TSR_ACTION_REDUCE));
  EXPECT_GT(count(step(3), TSR_ACTION_BROADCAST), count(step(2), TSR_ACTION_BROADCAST));  // blocks twice
}

TEST(Zero3, ARankThatOwnsNothingStillTakesPart) {
  const Gpt2Pass gpt2(40);
  for (const int stage : {1, 2, 3}) {
    const Program idle = gpt2.lowered(make(stage), 39), busy = gpt2.lowered(make(stage), 0);
    EXPECT_TRUE(idle.homes.empty());
    EXPECT_EQ(count(idle, TSR_ACTION_OPTIMIZER), 0u);
    for (const uint32_t kind : {TSR_ACTION_REDUCE, TSR_ACTION_BROADCAST, TSR_ACTION_ALL_REDUCE})
      EXPECT_EQ(count(idle, kind), count(busy, kind));
  }
}

}  // namespace
}  // namespace tessera::testing
