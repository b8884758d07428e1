// fsdp's slices, groups and options.
#include "fsdp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compile/declared_layout.h"
#include "model/freeze.h"
#include "sharding.h"
#include "support/expect_error.h"
#include "support/gpt2_pass.h"

namespace tessera::testing {
namespace {

using fsdp::Fsdp;
using fsdp::kSliceAlignment;
using fsdp::parse_wrap;
using fsdp::slice_elements;

struct Options {
  std::string sharding = "full_shard", wrap = "unit", reshard = "auto", backward = "pre";
  int64_t prefetch = 1, limit = 0;

  Fsdp make() const {
    return Fsdp("dp", OptionValues{{"sharding", sharding},
                                   {"wrap", wrap},
                                   {"reshard-after-forward", reshard},
                                   {"prefetch", "", prefetch},
                                   {"backward-prefetch", backward},
                                   {"limit-all-gathers", "", limit}});
  }
};

// ---- slices ----

TEST(Slices, HoldTheWholeAndAreAligned) {
  for (const uint64_t num_elements : {1u, 31u, 32u, 33u, 100u, 1000u, 4097u})
    for (const int num_ranks : {1, 2, 3, 4, 7, 8, 1024}) {
      const uint64_t slice = slice_elements(num_elements, num_ranks);
      const auto n = static_cast<uint64_t>(num_ranks);
      EXPECT_EQ(slice % kSliceAlignment, 0u);
      EXPECT_GE(slice * n, num_elements);
      EXPECT_LT(slice * n, num_elements + n * kSliceAlignment);
    }
}

TEST(Slices, AreWhatDivisionGivesWhenItGoes) {
  EXPECT_EQ(slice_elements(4096, 4), 1024u);
  EXPECT_EQ(slice_elements(96, 3), 32u);
  EXPECT_EQ(slice_elements(97, 3), 64u);
  EXPECT_EQ(slice_elements(1, 8), 32u);
}

/// Slices of every rank put together hold each element of each parameter once, in the order of the flat.
struct Cut {
  int num_ranks;
  const char* wrap;
  bool some_slice_is_empty;
};
class Pieces : public ::testing::TestWithParam<Cut> {};

TEST_P(Pieces, MakeEveryParameterOnce) {
  const int num_ranks = GetParam().num_ranks;
  const Gpt2Pass gpt2(num_ranks);
  const Fsdp fsdp = Options{.wrap = GetParam().wrap}.make();
  std::map<int, std::map<uint64_t, uint64_t>> ranges;  // parameter -> begin -> end
  bool some_slice_is_empty = false;
  for (int rank = 0; rank < num_ranks; ++rank)
    for (const Home& home : gpt2.lowered(fsdp, rank).homes) {
      some_slice_is_empty |= home.pieces.empty();
      EXPECT_EQ(home.num_elements % kSliceAlignment, 0u);
      uint64_t end = 0;
      for (const tsr_piece& piece : home.pieces) {
        EXPECT_GE(piece.home_offset, end) << home.name;
        end = piece.home_offset + piece.num_elements;
        EXPECT_LE(end, home.num_elements);
        const bool is_new =
            ranges[piece.parameter].emplace(piece.parameter_offset, piece.parameter_offset + piece.num_elements).second;
        EXPECT_TRUE(is_new);
      }
    }
  for (size_t p = 0; p < gpt2.model().parameters.size(); ++p) {
    uint64_t end = 0;
    for (const auto& [begin, next] : ranges[static_cast<int>(p)]) {
      EXPECT_EQ(begin, end) << gpt2.model().parameters[p].name;
      end = next;
    }
    EXPECT_EQ(end, gpt2.model().parameters[p].num_elements) << gpt2.model().parameters[p].name;
  }
  EXPECT_EQ(some_slice_is_empty, GetParam().some_slice_is_empty);
}

// ln_f is two parameters of 16 elements, 128 apart: of three slices of 96 the last holds none of them.
INSTANTIATE_TEST_SUITE_P(Ranks, Pieces,
                         ::testing::Values(Cut{1, "unit", false}, Cut{2, "unit", false}, Cut{3, "unit", true},
                                           Cut{3, "root", false}, Cut{4, "min-params:3000", true},
                                           Cut{64, "unit", true}),
                         [](const auto& test) {
                           const std::string wrap = test.param.wrap;
                           return "ranks_" + std::to_string(test.param.num_ranks) + "_" +
                                  wrap.substr(0, wrap.find_first_of("-:"));
                         });

// ---- groups ----

std::vector<std::string> home_names(const Options& options, StepConfig step_config = {}) {
  std::vector<std::string> names;
  for (const Home& home : Gpt2Pass(2, step_config).lowered(options.make(), 0).homes)
    names.push_back(home.name);
  return names;
}
using Names = std::vector<std::string>;

TEST(Wrap, GroupsUnits) {
  // Elements: wte 768, wpe 128, h.N 2432, ln_f 256.
  const Gpt2Pass gpt2(2);
  ASSERT_EQ(gpt2.model().units[0].num_elements, 768u);
  ASSERT_EQ(gpt2.model().units[1].num_elements, 128u);
  EXPECT_EQ(home_names({.wrap = "unit"}), (Names{"wte", "wpe", "h.0", "h.1", "ln_f"}));
  EXPECT_EQ(home_names({.wrap = "root"}), (Names{"wte..ln_f"}));
  EXPECT_EQ(home_names({.wrap = "min-params:768"}), (Names{"wte", "wpe..h.0", "h.1", "ln_f"}));
  EXPECT_EQ(home_names({.wrap = "size:3072"}), (Names{"wte", "wpe..h.0", "h.1", "ln_f"}));
  EXPECT_EQ(home_names({.wrap = "size:3076"}), (Names{"wte..wpe", "h.0", "h.1", "ln_f"}));  // a float more than wte
  EXPECT_EQ(home_names({.wrap = "size:1000000"}), (Names{"wte..ln_f"}));
}

TEST(Wrap, KeepsFrozenUnitsApart) {
  Gpt2Pass gpt2(2);
  freeze_parameters(gpt2.model(), std::vector<std::string>{"wpe.weight"});
  Names names;
  for (const Home& home : gpt2.lowered(Options{.wrap = "root"}.make(), 0).homes)
    names.push_back(home.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, (Names{"wpe frozen", "wte..ln_f"}));
}

TEST(Wrap, IsReadFromText) {
  EXPECT_EQ(parse_wrap("size:100").min_bytes, 100u);
  EXPECT_EQ(parse_wrap("min-params:7").min_elements, 7u);
  EXPECT_TRUE(parse_wrap("root").whole_model);
  EXPECT_FALSE(parse_wrap("unit").whole_model);
  for (const char* wrong : {"", "units", "size", "count:3"})
    expect_error([&] { parse_wrap(wrong); }, {"unit, root, size:BYTES or min-params:N"});
  for (const char* wrong : {"size:", "size:0", "size:-1", "size:10MB", "min-params:ten", "size:99999999999999999999"})
    expect_error([&] { parse_wrap(wrong); }, {wrong, "a whole number from 1 to 18446744073709551615"});
}

// ---- options that contradict one another ----

TEST(Options, ReshardingIsForWhatIsGathered) {
  for (const char* sharding : {"optimizer_only", "no_shard"})
    for (const char* reshard : {"true", "false"})
      expect_error([&] { Options{.sharding = sharding, .reshard = reshard}.make(); },
                   {"reshard-after-forward", "full_shard or shard_grad_op"});
  EXPECT_NO_THROW((Options{.sharding = "full_shard", .reshard = "false"}.make()));
  EXPECT_NO_THROW((Options{.sharding = "shard_grad_op", .reshard = "true"}.make()));
}

TEST(Options, ALimitIsForWhatIsGivenUp) {
  for (const char* sharding : {"shard_grad_op", "optimizer_only", "no_shard"})
    expect_error([&] { Options{.sharding = sharding, .limit = 2}.make(); }, {"limit-all-gathers", "full_shard"});
  expect_error([&] { Options{.reshard = "false", .limit = 2}.make(); }, {"limit-all-gathers"});
  EXPECT_NO_THROW((Options{.sharding = "shard_grad_op", .reshard = "true", .limit = 2}.make()));
}

// ---- layout ----

TEST(Layouts, SplitStatesAloneWhereOnlyTheOptimizerIsSharded) {
  constexpr uint32_t kValues = 1u << TSR_HOME_VALUE | 1u << TSR_HOME_MASTER;
  using Table = StrategyTable<Fsdp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;
  const Gpt2Pass gpt2(2);
  const Mesh mesh({{"dp", 2, TSR_SPLITS_BATCH}});
  for (const char* sharding : {"full_shard", "optimizer_only"}) {
    Fsdp fsdp = Options{.sharding = sharding}.make();
    Strategy& strategy = fsdp;
    const StrategyOnAxis on_axis{"fsdp", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)};
    const Layout layout = DeclaredLayout(gpt2.model(), mesh, {}, {}, {on_axis}).at({0});
    ASSERT_EQ(layout.size(), gpt2.model().parameters.size());
    for (const LayoutEntry& entry : layout) {
      EXPECT_EQ(entry.roles & kValues, fsdp.depends_on_coordinate() ? 0 : kValues) << sharding;
      EXPECT_EQ(entry.roles | kValues, uint32_t{TSR_ALL_HOME_ROLES});
    }
  }
}

// ---- programs ----

size_t count(const Program& program, uint32_t kind) {
  return static_cast<size_t>(std::ranges::count(program.actions, kind, &Action::kind));
}

TEST(Modes, CollectivesOfAStep) {
  struct Expected {
    const char* sharding;
    size_t gathers, scatters, sums;
  };
  for (const Expected& e : {Expected{"full_shard", 8, 5, 0}, Expected{"shard_grad_op", 5, 5, 0},
                            Expected{"optimizer_only", 5, 5, 0}, Expected{"no_shard", 0, 0, 5}}) {
    const Program step = Gpt2Pass(3).lowered(Options{.sharding = e.sharding}.make(), 1);
    EXPECT_EQ(count(step, TSR_ACTION_ALL_GATHER), e.gathers) << e.sharding;
    EXPECT_EQ(count(step, TSR_ACTION_REDUCE_SCATTER), e.scatters) << e.sharding;
    EXPECT_EQ(count(step, TSR_ACTION_ALL_REDUCE), e.sums) << e.sharding;
  }
}

TEST(Modes, InitBringsEveryRankTheValuesThatStandWhole) {
  const auto init = [](const char* sharding) {
    return Gpt2Pass(3).lowered(Options{.sharding = sharding}.make(), 1, TSR_PURPOSE_INIT);
  };
  EXPECT_TRUE(init("full_shard").actions.empty());
  EXPECT_EQ(count(init("optimizer_only"), TSR_ACTION_ALL_GATHER), 5u);
  EXPECT_EQ(count(init("no_shard"), TSR_ACTION_BROADCAST), 5u);
}

TEST(Modes, EveryMicroBatchIsReducedWhenAsked) {
  StepConfig step_config;
  step_config.num_micro_batches = 3;
  EXPECT_EQ(count(Gpt2Pass(2, step_config).lowered(Options{}.make(), 0), TSR_ACTION_REDUCE_SCATTER), 5u);
  step_config.reduce_every = TSR_EVERY_MICRO_BATCH;
  const Program step = Gpt2Pass(2, step_config).lowered(Options{}.make(), 0);
  EXPECT_EQ(count(step, TSR_ACTION_REDUCE_SCATTER), 15u);
  EXPECT_EQ(count(step, TSR_ACTION_ADD_INTO), 15u);  // one a slice, not one a parameter
}

TEST(Modes, SixteenBitsAreGatheredAndReduced) {
  StepConfig step_config;
  step_config.dtype = step_config.reduce_dtype = TSR_BF16;
  const Program step = Gpt2Pass(2, step_config).lowered(Options{}.make(), 0);
  for (const Action& action : step.actions) {
    if (action.kind != TSR_ACTION_ALL_GATHER && action.kind != TSR_ACTION_REDUCE_SCATTER) continue;
    for (const Binding& b : action.bindings)
      EXPECT_EQ(step.buffer(b.buffer).dtype, static_cast<uint32_t>(TSR_BF16));
  }
  for (const Home& home : step.homes)
    for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V})
      EXPECT_EQ(step.buffer(home.roles[role].buffer).dtype, static_cast<uint32_t>(TSR_F32)) << home.name;
}

/// A transient range is written once: the sum has a buffer of its own.
TEST(Modes, SumsOf16BitsAreNotWrittenOverTheirAddends) {
  StepConfig step_config;
  step_config.reduce_dtype = TSR_BF16;
  const Program step = Gpt2Pass(2, step_config).lowered(Options{.sharding = "no_shard"}.make(), 0);
  size_t num_sums = 0;
  for (const Action& cast : step.actions) {
    if (cast.kind != TSR_ACTION_CAST || step.buffer(cast.find(host::kDestination)->buffer).dtype != TSR_F32) continue;
    ++num_sums;
    for (const Action& action : step.actions)
      for (const Binding& binding : action.bindings)
        EXPECT_FALSE(&action != &cast && binding.mode != TSR_MODE_READ &&
                     binding.buffer == cast.find(host::kDestination)->buffer);
  }
  EXPECT_EQ(num_sums, 5u);
}

}  // namespace
}  // namespace tessera::testing
