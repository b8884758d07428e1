// Whatever is cut, the same elements are updated and counted, each with the same gradient, state and weight decay.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "fsdp.h"
#include "program/lower_op.h"
#include "support/gpt2_ddp.h"
#include "support/gpt2_pass.h"
#include "support/homes_by_hand.h"

namespace tessera::testing {
namespace {

using Homes = HomesByHand;

// ---- what updates do ---------------------------------------------------------------------------------------------

/// One element of an update: its address in each operand, by slot, and its weight decay.
struct Element {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> places;
  double weight_decay = 0;

  auto operator<=>(const Element&) const = default;
};

/// What all actions of a kind touch, element by element, as a device does: the ranges of the home within each operand.
std::vector<Element> elements_of(const Program& program, uint32_t kind) {
  std::vector<Element> elements;
  for (const Action& action : program.actions) {
    if (action.kind != kind) continue;
    const Home& home = program.home(action.home);
    for (const tsr_op_range& range :
         kind == TSR_ACTION_OPTIMIZER ? optimizer_ranges(program, home) : counted_ranges(program, home))
      for (uint64_t e = range.offset; e < range.offset + range.num_elements; ++e) {
        Element element{{}, range.weight_decay};
        for (const Binding& b : action.bindings) {
          const uint32_t role = TSR_SLOT_ROLE(b.slot);
          if (role == TSR_ROLE_SCALAR) continue;
          EXPECT_LT(e, b.num_elements) << home.name;
          element.places[b.slot] = {b.buffer, b.offset + e};
        }
        elements.push_back(std::move(element));
      }
  }
  std::ranges::sort(elements);
  return elements;
}

/// (parameter, element) of every piece, with the address of its value.
std::vector<std::array<uint64_t, 3>> owned(const Program& program) {
  std::vector<std::array<uint64_t, 3>> elements;
  for (const Home& home : program.homes)
    for (const tsr_piece& piece : home.pieces)
      for (uint64_t e = 0; e < piece.num_elements; ++e)
        elements.push_back(
            {static_cast<uint64_t>(piece.parameter), piece.parameter_offset + e,
             home.roles[TSR_HOME_VALUE].buffer << 32 | (home.roles[TSR_HOME_VALUE].offset + piece.home_offset + e)});
  std::ranges::sort(elements);
  return elements;
}

// ---- random homes ------------------------------------------------------------------------------------------------

/// Homes of one piece to three, with pads between and within them, some not trained, some before the last one, and
/// sometimes at other distances in one role.
Homes random_homes(std::mt19937& random) {
  Homes homes(1 << 16, random() % 2 ? random() % 100 : 0);
  uint64_t end = random() % 3000;
  for (size_t i = 1 + random() % 8; i-- > 0;) {
    const uint64_t num_elements = 1 + random() % (random() % 3 ? 300 : 5000);
    homes.add(end, num_elements, random() % 2 ? Homes::kMatrix : Homes::kBias, random() % 6 != 0);
    Home& home = homes.program.homes.back();
    std::vector<uint64_t> ends = {0, num_elements, random() % (num_elements + 1), random() % (num_elements + 1)};
    std::ranges::sort(ends);
    home.pieces.clear();
    for (size_t e = 0; e + 1 < ends.size(); ++e)
      if (ends[e] < ends[e + 1] && (random() % 4 || home.pieces.empty()))
        home.pieces.push_back(
            {random() % 2 ? Homes::kMatrix : Homes::kBias, 0, random() % 1000, ends[e + 1] - ends[e], ends[e]});
    end += num_elements + random() % 200;
    if (random() % 5 == 0) home.roles[TSR_HOME_VALUE].offset += 7000;
  }
  return homes;
}

void expect_chunks(const Program& program, uint64_t chunk_elements, std::span<const Home> before) {
  ASSERT_TRUE(std::ranges::is_sorted(program.homes, {}, &Home::id));
  std::set<uint64_t> ids;
  for (const Action& action : program.actions)
    ASSERT_TRUE(ids.insert(action.id).second) << "two actions have the id " << action.id;
  for (const Home& home : program.homes) {
    if (std::ranges::count(before, home.id, &Home::id)) continue;
    ASSERT_LE(home.num_elements, std::max(kCut, chunk_elements));
    const uint64_t begin = home.roles[TSR_HOME_M].offset, end = begin + home.num_elements;
    const auto is_end = [&](uint64_t place) {
      return place % kCut == 0 || std::ranges::any_of(before, [&](const Home& old) {
               const uint64_t at = old.roles[TSR_HOME_M].offset;
               return at == place || at + old.num_elements == place;
             });
    };
    ASSERT_TRUE(is_end(begin) && is_end(end)) << home.name << " " << begin << " " << end;
  }
}

TEST(Chunks, UpdateAndCountTheSameElements) {
  size_t num_joined = 0, num_cut = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Homes homes = random_homes(random);
    homes.add_updates();
    const Program before = homes.program;
    const uint64_t chunk_elements = 1 + random() % 6000;
    cut_homes(homes.program, chunk_elements * sizeof(float));
    const Program& after = homes.program;
    ASSERT_TRUE(elements_of(after, TSR_ACTION_OPTIMIZER) == elements_of(before, TSR_ACTION_OPTIMIZER));
    ASSERT_TRUE(elements_of(after, TSR_ACTION_SUM_SQUARES) == elements_of(before, TSR_ACTION_SUM_SQUARES));
    ASSERT_TRUE(owned(after) == owned(before));
    ASSERT_NO_FATAL_FAILURE(expect_chunks(after, chunk_elements, before.homes));
    num_joined += after.homes.size() < before.homes.size();
    num_cut += after.homes.size() > before.homes.size();
  }
  EXPECT_GT(num_joined, 50u);
  EXPECT_GT(num_cut, 50u);
}

// ---- the step of a model -----------------------------------------------------------------------------------------

// What slices of uneven length and slices of padding alone own, and that all ranks have the same actions.
TEST(Chunks, OfSlicesUpdateAndCountTheSameElements) {
  constexpr int kNumRanks = 5;
  const Gpt2Pass gpt2(kNumRanks);
  const fsdp::Fsdp fsdp("dp", OptionValues{{"sharding", "full_shard"},
                                           {"wrap", "unit"},
                                           {"reshard-after-forward", "auto"},
                                           {"prefetch", "", 1},
                                           {"backward-prefetch", "pre"},
                                           {"limit-all-gathers", "", 0}});
  std::vector<size_t> num_actions;
  bool some_home_is_empty = false;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    Program program = gpt2.lowered(fsdp, rank);
    finalize_program(program);
    const Program before = program;
    cut_homes(program, 4096);
    EXPECT_TRUE(elements_of(program, TSR_ACTION_OPTIMIZER) == elements_of(before, TSR_ACTION_OPTIMIZER)) << rank;
    EXPECT_TRUE(elements_of(program, TSR_ACTION_SUM_SQUARES) == elements_of(before, TSR_ACTION_SUM_SQUARES)) << rank;
    EXPECT_TRUE(owned(program) == owned(before)) << rank;
    num_actions.push_back(program.actions.size());
    some_home_is_empty |= std::ranges::any_of(before.homes, [](const Home& home) { return home.pieces.empty(); });
  }
  EXPECT_EQ(num_actions, std::vector<size_t>(kNumRanks, num_actions[0]));
  EXPECT_TRUE(some_home_is_empty);
}

TEST(Chunks, OfABlockAreOfAllItsParameters) {
  const Gpt2Ddp job(1);
  Program program = job.base(0);
  finalize_program(program);
  const Program before = program;
  cut_homes(program, 16 << 20);
  std::vector<std::string> names;
  for (const Home& home : program.homes)
    names.push_back(home.name);
  EXPECT_EQ(names, (std::vector<std::string>{"wte.weight", "wpe.weight", "h.0", "h.1", "ln_f"}));
  EXPECT_TRUE(elements_of(program, TSR_ACTION_OPTIMIZER) == elements_of(before, TSR_ACTION_OPTIMIZER));
  EXPECT_TRUE(elements_of(program, TSR_ACTION_SUM_SQUARES) == elements_of(before, TSR_ACTION_SUM_SQUARES));
}

}  // namespace
}  // namespace tessera::testing
