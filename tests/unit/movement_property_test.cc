// Movement changes nothing that an action reads. Random programs, a step and one beside it that follows what rests, run
// as they are and with random items away, some actions on the host: three steps, in list order and in random orders of
// the streams with planned addresses. What every action reads and what persistent buffers hold at the end must be the
// same, and every copy must be of use.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "memory/memory_plan.h"
#include "offload/copies.h"
#include "offload/items.h"
#include "offload/movement.h"
#include "offload/resting.h"
#include "offload/visits.h"
#include "passes/dependencies.h"
#include "program/range_set.h"
#include "support/hashing_rank.h"
#include "support/program_builder.h"

namespace tessera::testing {
namespace {

const Mesh kMesh({{"dp", 1}});

bool is_on(const Program& program, const Action& action, std::string_view stream) {
  return program.streams[action.stream].name == stream;
}

/// What three steps, one of them after the other program, read and leave in memory.
struct Outcome {
  std::vector<Trace> traces;
  std::map<std::string, std::vector<uint64_t>> persistent;

  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(HashingRank rank, std::mt19937* random = nullptr) {
  Outcome outcome;
  for (const size_t which : {0, 0, 1, 0})
    outcome.traces.push_back(rank.run(which, random));
  outcome.persistent = rank.persistent_contents();
  return outcome;
}

// ---- random programs ---------------------------------------------------------------------------------------------

/// The operands of one buffer in one action: one range or two that do not overlap. Transient ranges are written when
/// nothing has written them, else read or added to; a range that is half written is left out.
std::vector<Use> random_uses(const Buffer& buffer, RangeSet& written, std::mt19937& random) {
  const auto number_below = [&](uint64_t n) { return static_cast<uint64_t>(random()) % n; };
  std::vector<uint64_t> ends = {number_below(buffer.num_elements + 1), number_below(buffer.num_elements + 1)};
  if (random() % 4 == 0) ends.insert(ends.end(), {number_below(buffer.num_elements), buffer.num_elements});
  std::ranges::sort(ends);
  std::vector<Use> uses;
  for (size_t e = 0; e < ends.size(); e += 2) {
    const uint64_t begin = ends[e], end = ends[e + 1];
    if (begin == end) continue;
    uint32_t mode = random() % 3 ? TSR_MODE_READ : TSR_MODE_ADD;
    if (buffer.persistent)
      mode = random() % 4 ? mode : TSR_MODE_WRITE;
    else if (written.disjoint(begin, end))
      mode = TSR_MODE_WRITE;
    else if (!written.contains(begin, end))
      continue;
    written.add(begin, end);
    uses.push_back({buffer.id, mode, 0, begin, end - begin});
  }
  return uses;
}

void add_random_actions(Program& program, std::mt19937& random) {
  for (int unit = 0; unit < 3; ++unit)
    program.homes.push_back({program.next_id++, "home", unit, {}, 0, {}});
  std::map<uint64_t, RangeSet> written;
  const size_t num_actions = 3 + random() % 20;
  for (size_t a = 0; a < num_actions; ++a) {
    std::vector<Use> uses;
    const std::map<uint64_t, RangeSet> before = written;
    for (const Buffer& buffer : program.buffers)
      if (random() % 3 == 0) std::ranges::copy(random_uses(buffer, written[buffer.id], random), back_inserter(uses));
    // One range alone is summed where it leaves, like the squares of a gradient.
    const auto reads = std::ranges::find(uses, TSR_MODE_READ, &Use::mode);
    if (reads != uses.end() && random() % 3 == 0) {
      uses = {*reads};
      written = before;
    }
    for (uint32_t slot = 0; Use & use : uses)
      use.slot = TSR_SLOT(TSR_ROLE_DESTINATION, slot++);
    add_action(program, TSR_ACTION_SUM_SQUARES, TSR_STREAM_COMPUTE, uses).home = program.homes[random() % 3].id;
  }
}

/// A step and another program with the same persistent buffers, under other ids.
struct Programs {
  Programs(const Model& model, std::mt19937& random)
      : step(empty_program(model, kMesh)), other(empty_program(model, kMesh)) {
    const auto num_elements = [&] { return 2 + random() % 12; };
    std::vector<std::pair<std::string, uint64_t>> names;
    for (size_t i = random() % 4; i-- > 0;)
      names.emplace_back("p" + std::to_string(i), num_elements());
    for (const auto& [name, size] : names)
      persistent(step, name, size);
    for (size_t i = random() % 4; i-- > 0;)
      transient(step, "t" + std::to_string(i), num_elements());
    transient(other, "t", num_elements());
    std::ranges::reverse(names);
    for (const auto& [name, size] : names)
      persistent(other, name, size);
    for (Program* program : all)
      add_random_actions(*program, random);
  }
  Programs(const Programs&) = delete;

  Program step, other;
  std::array<Program*, 2> all = {&step, &other};
};

std::vector<tsr_visit> random_visits(const Program& program, std::mt19937& random) {
  std::vector<tsr_visit> visits;
  for (uint64_t i = 0; i < program.actions.size(); ++i) {
    if (visits.empty() || random() % 2) visits.push_back({i, i, TSR_VISIT_FORWARD, -1, 0, 0, 0, 0, 0});
    visits.back().last_action = i;
  }
  return visits;
}

std::vector<tsr_leave> random_leaves(std::span<const Item> items, std::mt19937& random) {
  std::vector<tsr_leave> leaves;
  for (const Item& item : items) {
    const bool rests = item.buffer->persistent;
    if (rests && random() % 4 == 0) continue;
    for (size_t u = 0; u < item.uses.size(); ++u)
      if (u + 1 == item.uses.size() ? rests : random() % 3 != 0) {
        const auto distance = [&] { return static_cast<uint32_t>(random() % 4); };
        leaves.push_back({item.buffer->id, item.uses[u].visit, TSR_MEMORY_HOST, distance(), distance()});
      }
  }
  return leaves;
}

// ---- actions on the host ----------------------------------------------------------------------------------------

/// Of each buffer that an action on the host uses, the last visit before that uses it on the device. Nothing: the host
/// would find one of them in device memory, since its visit is that of the action, or nothing has written it.
std::optional<std::set<std::pair<uint64_t, uint32_t>>> uses_before(const Program& program,
                                                                   std::span<const uint32_t> visit_of,
                                                                   const std::set<size_t>& on_host) {
  std::set<std::pair<uint64_t, uint32_t>> result;
  std::map<uint64_t, uint32_t> last_visit;
  for (size_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& b : program.actions[i].bindings) {
      if (!on_host.contains(i)) {
        last_visit[b.buffer] = visit_of[i];
        continue;
      }
      const auto last = last_visit.find(b.buffer);
      if (last == last_visit.end() ? !program.buffer(b.buffer).persistent : last->second == visit_of[i])
        return std::nullopt;
      if (last != last_visit.end()) result.emplace(b.buffer, last->second);
    }
  return result;
}

/// Some actions all of whose operands are items, which get the leaves that they need. Indices.
std::set<size_t> random_host_runs(const Program& program, std::span<const tsr_visit> visits,
                                  std::span<const Item> items, std::vector<tsr_leave>& leaves, std::mt19937& random) {
  std::set<size_t> on_host;
  const std::vector<uint32_t> visit_of = visit_of_actions(visits);
  const auto find = [&](uint64_t buffer) {
    return std::ranges::find(items, buffer, [](const Item& item) { return item.buffer->id; });
  };
  for (size_t i = 0; i < program.actions.size(); ++i) {
    const auto& bindings = program.actions[i].bindings;
    const auto is_item = [&](const Binding& b) { return find(b.buffer) != items.end(); };
    if (random() % 3 || bindings.empty() || !std::ranges::all_of(bindings, is_item)) continue;
    on_host.insert(i);
    if (!uses_before(program, visit_of, on_host)) on_host.erase(i);
  }
  std::set<std::pair<uint64_t, uint32_t>> needed = *uses_before(program, visit_of, on_host);
  for (const size_t i : on_host)
    for (const Binding& b : program.actions[i].bindings)
      if (program.buffer(b.buffer).persistent) needed.emplace(b.buffer, find(b.buffer)->uses.back().visit);
  for (const auto& [buffer, visit] : needed)
    if (std::ranges::none_of(leaves, [&](const tsr_leave& l) { return l.buffer == buffer && l.after == visit; }))
      leaves.push_back({buffer, visit, TSR_MEMORY_HOST, static_cast<uint32_t>(random() % 4), 1});
  return on_host;
}

// ---- what is true of every moved program -------------------------------------------------------------------------

/// Copies go between the memories, the host uses its own, all else uses device memory.
void expect_memories(const Program& program) {
  for (const Action& action : program.actions)
    for (const Binding& b : action.bindings) {
      const bool is_away =
          is_on(program, action, kHostStream) ||
          (is_movement(program, action) && (b.mode == TSR_MODE_READ) == is_on(program, action, kFetchStream));
      ASSERT_EQ(program.buffer(b.buffer).memory, is_away ? TSR_MEMORY_HOST : TSR_MEMORY_DEVICE);
    }
}

/// No range of a transient item is written twice, and a fetched copy is as long as what uses it.
void expect_buffers(const Program& program) {
  std::map<uint64_t, RangeSet> written, bound;
  for (const Action& action : program.actions)
    for (const Binding& b : action.bindings) {
      const uint64_t end = b.offset + b.num_elements;
      ASSERT_LE(end, program.buffer(b.buffer).num_elements);
      bound[b.buffer].add(b.offset, end);
      if (b.mode != TSR_MODE_WRITE || program.buffer(b.buffer).name[0] == 'p') continue;
      ASSERT_TRUE(written[b.buffer].disjoint(b.offset, end));
      written[b.buffer].add(b.offset, end);
    }
  for (const Buffer& buffer : program.buffers)
    if (buffer.kind == TSR_BUFFER_FETCHED) {
      ASSERT_FALSE(bound[buffer.id].disjoint(0, 1));
      ASSERT_FALSE(bound[buffer.id].disjoint(buffer.num_elements - 1, buffer.num_elements));
    }
}

/// What is fetched is read before it is written, what is evicted was written since it came, and what a transient item
/// has evicted comes back. No two copies of one position could be one.
void expect_useful_copies(const Program& program) {
  enum State { idle, fetched, dirty, away };
  std::map<std::pair<uint64_t, uint64_t>, State> state;  // by buffer and element
  const Action* last = nullptr;
  for (const Action& action : program.actions) {
    if (!is_movement(program, action)) {
      for (const Binding& b : action.bindings)
        for (uint64_t e = b.offset; e < b.offset + b.num_elements; ++e) {
          State& cell = state[{b.buffer, e}];
          ASSERT_FALSE(b.mode == TSR_MODE_WRITE && cell == fetched) << "fetched in vain";
          cell = b.mode == TSR_MODE_READ && cell != dirty ? idle : dirty;
        }
      last = nullptr;
      continue;
    }
    const Binding &from = action.bindings[0], &to = action.bindings[1];
    const bool fetches = is_on(program, action, kFetchStream);
    for (uint64_t k = 0; k < from.num_elements; ++k) {
      State &source = state[{from.buffer, from.offset + k}], &destination = state[{to.buffer, to.offset + k}];
      ASSERT_TRUE(fetches || source == dirty) << "evicted in vain";
      source = idle;
      destination = fetches ? fetched : program.buffer(to.buffer).persistent ? idle : away;
    }
    if (last && last->stream == action.stream) {
      const auto is_beside = [](const Binding& one, const Binding& next) {
        return one.buffer == next.buffer && one.offset + one.num_elements == next.offset;
      };
      ASSERT_FALSE(is_beside(last->bindings[0], from) && (!fetches || is_beside(last->bindings[1], to)))
          << "two copies";
    }
    last = &action;
  }
  for (const auto& [place, cell] : state) {
    ASSERT_NE(cell, fetched) << "fetched in vain";
    ASSERT_NE(cell, away) << "evicted and never fetched";
  }
}

/// Items that rest are in host memory, the others are where they were.
void expect_rests(const Program& program, std::span<const tsr_leave> leaves) {
  std::set<uint64_t> left;
  for (const tsr_leave& leave : leaves)
    left.insert(leave.buffer);
  for (const Buffer& buffer : program.buffers)
    ASSERT_TRUE(!buffer.persistent || (buffer.memory == TSR_MEMORY_HOST) == left.contains(buffer.id));
}

void expect_same_in_any_order(Programs& programs, const Outcome& before, std::mt19937& random) {
  for (Program* program : programs.all)
    derive_dependencies(*program);
  const std::vector<MemoryPlan> plans = plan_memory(programs.all);
  for (int order = 0; order < 5; ++order)
    ASSERT_EQ(outcome_of(HashingRank(programs.all, plans), &random), before);
}

TEST(Movement, ChangesNothingThatAnActionReads) {
  const Model model = toy_model();
  size_t num_copies = 0, num_resting = 0, num_on_host = 0;
  for (uint32_t seed = 0; seed < 10'000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Programs programs(model, random);
    const Outcome before = outcome_of(HashingRank(programs.all, spread(programs.all)));
    const std::vector<tsr_visit> visits = random_visits(programs.step, random);
    const std::vector<Item> items = items_of(programs.step, visits);
    std::vector<tsr_leave> leaves = random_leaves(items, random);
    std::set<size_t> on_host;
    if (seed % 2) on_host = random_host_runs(programs.step, visits, items, leaves, random);
    const std::vector<RestingBuffer> resting = resting_buffers(programs.step, leaves);
    move_items(programs.step, visits, leaves, true, std::vector<size_t>(on_host.begin(), on_host.end()));
    follow_resting_buffers(programs.other, resting);
    ASSERT_EQ(outcome_of(HashingRank(programs.all, spread(programs.all))), before);
    expect_rests(programs.step, leaves);
    for (const Program* program : programs.all) {
      expect_memories(*program);
      expect_buffers(*program);
      expect_useful_copies(*program);
      for (const Action& action : program->actions)
        num_copies += is_movement(*program, action);
    }
    num_resting += resting.size();
    num_on_host += on_host.size();
    if (seed % 10 == 0 && !HasFatalFailure()) expect_same_in_any_order(programs, before, random);
  }
  EXPECT_GT(num_copies, 20'000u);
  EXPECT_GT(num_resting, 5'000u);
  EXPECT_GT(num_on_host, 5'000u);
}

}  // namespace
}  // namespace tessera::testing
