// Movement of items: what it inserts in small cases, and that it changes nothing in random programs: every action must
// read what it read before, in list order and in random orders of the streams with planned addresses.
#include "offload/movement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "memory/memory_plan.h"
#include "offload/copies.h"
#include "offload/items.h"
#include "offload/visits.h"
#include "passes/dependencies.h"
#include "program/range_set.h"
#include "support/program_builder.h"

namespace tessera::testing {
namespace {

const Mesh kMesh({{"dp", 1}});

// ---- programs as functions of what their actions read ------------------------------------------------------------

uint64_t mix(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
  return a * 0xff51afd7ed558ccdu ^ (a >> 33);
}

/// What every action, by id, has read. Copies are left out: only they may be different.
using Trace = std::map<uint64_t, uint64_t>;

/// The contents of memory: by memory and element's address.
using Memory = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;

/// Runs one action: it reads its operands and writes a hash of what it has read.
void run_action(const Program& program, const Action& action, const MemoryPlan* plan, Memory& memory, Trace& trace) {
  const auto cell = [&](const Binding& b, uint64_t i) -> uint64_t& {
    const Buffer& buffer = program.buffer(b.buffer);
    const uint64_t base = plan ? plan->address.at(b.buffer) / sizeof(float) : b.buffer << 32;
    return memory[{buffer.memory, base + b.offset + i}];
  };
  if (action.kind == TSR_ACTION_COPY) {
    for (uint64_t i = 0; i < action.bindings[0].num_elements; ++i)
      cell(action.bindings[1], i) = cell(action.bindings[0], i);
    return;
  }
  uint64_t hash = action.id;
  for (const Binding& b : action.bindings)
    for (uint64_t i = 0; b.mode != TSR_MODE_WRITE && i < b.num_elements; ++i)
      hash = mix(hash, cell(b, i));
  trace[action.id] = hash;
  uint64_t index = 0;
  for (const Binding& b : action.bindings)
    for (uint64_t i = 0; b.mode != TSR_MODE_READ && i < b.num_elements; ++i)
      cell(b, i) = mix(hash, ++index);
}

Trace run_as_list(const Program& program) {
  Memory memory;
  Trace trace;
  for (const Action& action : program.actions)
    run_action(program, action, nullptr, memory, trace);
  return trace;
}

/// Runs the streams in a random order that keeps the order of each and all dependencies.
Trace run_as_streams(const Program& program, const MemoryPlan& plan, std::mt19937& random) {
  Memory memory;
  Trace trace;
  std::vector<std::vector<size_t>> queues(program.streams.size());
  for (size_t i = 0; i < program.actions.size(); ++i)
    queues[program.actions[i].stream].push_back(i);
  std::vector<size_t> next(queues.size());
  std::vector<bool> is_done(program.actions.size());
  for (size_t done = 0; done < program.actions.size();) {
    const size_t stream = random() % queues.size();
    if (next[stream] == queues[stream].size()) continue;
    const size_t i = queues[stream][next[stream]];
    const Action& action = program.actions[i];
    if (!std::ranges::all_of(action.dependencies, [&](uint32_t before) { return is_done[before]; })) continue;
    run_action(program, action, &plan, memory, trace);
    is_done[i] = true;
    ++next[stream];
    ++done;
  }
  return trace;
}

// ---- random programs ---------------------------------------------------------------------------------------------

/// A random range of whole quarters of a buffer.
std::pair<uint64_t, uint64_t> random_range(uint64_t num_elements, std::mt19937& random) {
  const uint64_t begin = random() % num_elements;
  return {begin, begin + 1 + random() % (num_elements - begin)};
}

/// A random operand: it writes what is not written yet, else reads it or adds to it. Nothing when it is half written.
std::optional<Use> random_use(uint64_t buffer, uint64_t num_elements, RangeSet& written, std::mt19937& random) {
  const auto [begin, end] = random_range(num_elements, random);
  Use use{buffer, random() % 3 ? TSR_MODE_READ : TSR_MODE_ADD, 0, begin, end - begin};
  if (written.disjoint(begin, end))
    use.mode = TSR_MODE_WRITE;
  else if (!written.contains(begin, end))
    return std::nullopt;
  written.add(begin, end);
  return use;
}

Program random_program(const Model& model, std::mt19937& random) {
  Program program = empty_program(model, kMesh);
  std::map<uint64_t, RangeSet> written;
  for (uint32_t i = 0; i < 1 + random() % 5; ++i)
    written[transient(program, "t" + std::to_string(i), 2 + random() % 12)];
  const size_t num_actions = 3 + random() % 25;
  for (size_t a = 0; a < num_actions; ++a) {
    std::vector<Use> uses;
    for (auto& [buffer, set] : written)
      if (random() % 3 == 0)
        if (const auto use = random_use(buffer, program.buffer(buffer).num_elements, set, random)) uses.push_back(*use);
    uint32_t slot = 0;
    for (Use& use : uses)
      use.slot = TSR_SLOT(TSR_ROLE_DESTINATION, slot++);
    add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, uses);
  }
  return program;
}

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
  for (const Item& item : items)
    for (size_t u = 0; u + 1 < item.uses.size(); ++u)
      if (random() % 3) {
        const auto distance = [&] { return static_cast<uint32_t>(random() % 4); };
        leaves.push_back({item.buffer->id, item.uses[u].visit, TSR_MEMORY_HOST, distance(), distance()});
      }
  return leaves;
}

/// Copies go between the memories, and all else stays in device memory.
void expect_memories(const Program& program) {
  for (const Action& action : program.actions)
    for (const Binding& b : action.bindings) {
      const bool fetches = program.streams[action.stream].name == kFetchStream;
      const bool is_away = is_movement(program, action) && (b.mode == TSR_MODE_READ) == fetches;
      ASSERT_EQ(program.buffer(b.buffer).memory, is_away ? TSR_MEMORY_HOST : TSR_MEMORY_DEVICE);
    }
}

void expect_written_once(const Program& program) {
  std::map<uint64_t, RangeSet> written;
  for (const Action& action : program.actions)
    for (const Binding& b : action.bindings)
      if (b.mode == TSR_MODE_WRITE) {
        ASSERT_TRUE(written[b.buffer].disjoint(b.offset, b.offset + b.num_elements));
        written[b.buffer].add(b.offset, b.offset + b.num_elements);
      }
}

TEST(Movement, ChangesNothingThatAnActionReads) {
  const Model model = toy_model();
  size_t num_copies = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Program program = random_program(model, random);
    const Trace before = run_as_list(program);
    const std::vector<tsr_visit> visits = random_visits(program, random);
    const std::vector<tsr_leave> leaves = random_leaves(items_of(program, visits), random);
    move_items(program, visits, leaves);
    ASSERT_EQ(run_as_list(program), before);
    expect_memories(program);
    expect_written_once(program);
    for (const Action& action : program.actions)
      num_copies += is_movement(program, action);
    if (seed % 10 || HasFatalFailure()) continue;
    derive_dependencies(program);
    Program* programs[] = {&program};
    const std::vector<MemoryPlan> plans = plan_memory(programs);
    for (int order = 0; order < 5; ++order)
      ASSERT_EQ(run_as_streams(program, plans[0], random), before);
  }
  EXPECT_GT(num_copies, 20'000u);
}

// ---- small cases -------------------------------------------------------------------------------------------------

/// "compute", or "evict t host" and the like, of each action.
std::vector<std::string> words(const Program& program) {
  std::vector<std::string> result;
  for (const Action& action : program.actions) {
    std::string word = program.streams[action.stream].name;
    if (is_movement(program, action)) word += " " + program.buffer(action.bindings[0].buffer).name;
    result.push_back(word);
  }
  return result;
}

/// One action a visit; each binds the whole of the buffers it names, in modes of "r", "w" and "a".
class SmallStep {
 public:
  explicit SmallStep(std::vector<std::map<std::string, char>> actions) {
    for (const auto& uses : actions) {
      std::vector<Use> bound;
      for (const auto& [name, mode] : uses) {
        if (!ids_[name]) ids_[name] = transient(program, name, 64);
        bound.push_back(mode == 'r' ? read(ids_[name]) : mode == 'w' ? write(ids_[name]) : add(ids_[name]));
      }
      visits.push_back({visits.size(), visits.size(), TSR_VISIT_FORWARD, -1, 0, 0, 0, 0, 0});
      add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, bound);
    }
  }

  SmallStep& leave(const std::string& name, uint32_t after, uint32_t ahead, uint32_t linger) {
    leaves_.push_back({ids_.at(name), after, TSR_MEMORY_HOST, ahead, linger});
    return *this;
  }
  std::vector<std::string> moved() {
    move_items(program, visits, leaves_);
    return words(program);
  }

  const Model model = toy_model();
  Program program = empty_program(model, kMesh);
  std::vector<tsr_visit> visits;

 private:
  std::map<std::string, uint64_t> ids_;
  std::vector<tsr_leave> leaves_;
};

using Words = std::vector<std::string>;

TEST(Movement, IsAheadAndLingersByVisits) {
  SmallStep step({{{"t", 'w'}}, {}, {}, {}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 1, 1).moved(),
            (Words{"compute", "compute", "evict t", "compute", "compute", "fetch t", "compute", "compute"}));
}

TEST(Movement, CopiesOutOnlyWhatWasWritten) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'r'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 2, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "fetch t", "compute", "compute", "fetch t", "compute"}));
}

TEST(Movement, CopiesOutAgainWhatWasAddedTo) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'a'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 2, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "fetch t", "compute", "evict t", "compute", "fetch t", "compute"}));
}

TEST(Movement, ThatLingersUntilTheNextFetchEvictsBeforeIt) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 1, 9).moved(), (Words{"compute", "evict t", "fetch t", "compute", "compute"}));
}

TEST(Movement, FetchesFirstWhatIsUsedFirst) {
  SmallStep step({{{"a", 'w'}, {"b", 'w'}}, {}, {{"b", 'r'}}, {{"a", 'r'}}});
  EXPECT_EQ(step.leave("a", 0, 2, 0).leave("b", 0, 1, 0).moved(),
            (Words{"compute", "evict a", "evict b", "fetch b", "fetch a", "compute", "compute", "compute"}));
}

TEST(Movement, WithoutLeavesIsNothing) {
  SmallStep step({{{"t", 'w'}}, {{"t", 'r'}}});
  EXPECT_EQ(step.moved(), (Words{"compute", "compute"}));
  EXPECT_EQ(step.program.streams.size(), 3u);
}

// ---- items -------------------------------------------------------------------------------------------------------

std::set<std::string> item_names(const SmallStep& step) {
  std::set<std::string> names;
  for (const Item& item : items_of(step.program, step.visits))
    names.insert(item.buffer->name);
  return names;
}

TEST(Items, AreUsedByTwoVisits) {
  const SmallStep step({{{"once", 'w'}, {"t", 'w'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(item_names(step), std::set<std::string>{"t"});
  const Item item = items_of(step.program, step.visits)[0];
  ASSERT_EQ(item.uses.size(), 2u);
  EXPECT_EQ(item.uses[0].visit, 0u);
  EXPECT_EQ(item.uses[0].mode, TSR_MODE_ADD);
  EXPECT_EQ(item.uses[1].visit, 2u);
  EXPECT_EQ(item.uses[1].mode, TSR_MODE_READ);
  EXPECT_EQ(item.uses[1].num_bytes, 256u);
}

TEST(Items, AreNotWhatIsWrittenAgain) {
  EXPECT_EQ(item_names(SmallStep({{{"t", 'w'}}, {{"t", 'r'}}, {{"t", 'w'}}, {{"t", 'r'}}})), std::set<std::string>{});
}

TEST(Items, AreNotWhatHasLeftAlready) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'r'}}, {{"u", 'w'}}, {{"u", 'r'}}});
  step.leave("t", 0, 0, 0).moved();
  step.visits.clear();
  for (uint64_t i = 0; i < step.program.actions.size(); ++i)
    step.visits.push_back({i, i, TSR_VISIT_FORWARD, -1, 0, 0, 0, 0, 0});
  EXPECT_EQ(item_names(step), std::set<std::string>{"u"});
}

}  // namespace
}  // namespace tessera::testing
