#include "passes/dependencies.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <random>

#include "support/expect_error.h"
#include "support/patience.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

using Indices = std::vector<uint32_t>;

// Every order that streams and dependencies allow, by plain reachability over the list.
class Reachable {
 public:
  explicit Reachable(const Program& program) : num_actions_(program.actions.size()), before_(num_actions_) {
    std::vector<int> last(program.streams.size(), -1);
    for (size_t i = 0; i < num_actions_; ++i) {
      before_[i].resize(num_actions_, false);
      int& previous = last[program.actions[i].stream];
      if (previous >= 0) join(i, previous);
      for (const uint32_t d : program.actions[i].dependencies)
        join(i, d);
      previous = static_cast<int>(i);
    }
  }
  bool operator()(size_t first, size_t second) const { return before_[second][first]; }

 private:
  void join(size_t i, size_t earlier) {
    before_[i][earlier] = true;
    for (size_t j = 0; j < earlier; ++j)
      if (before_[earlier][j]) before_[i][j] = true;
  }
  size_t num_actions_;
  std::vector<std::vector<bool>> before_;  // [second][first]
};

bool overlap(const Binding& x, const Binding& y) {
  return x.buffer == y.buffer &&
         std::max(x.offset, y.offset) < std::min(x.offset + x.num_elements, y.offset + y.num_elements);
}

bool conflict(const Action& a, const Action& b) {
  for (const Binding& x : a.bindings)
    for (const Binding& y : b.bindings)
      if (overlap(x, y) && (x.mode != TSR_MODE_READ || y.mode != TSR_MODE_READ)) return true;
  return false;
}

// Pairs of actions that conflict and that nothing orders.
size_t num_unordered(const Program& program) {
  const Reachable reachable(program);
  size_t result = 0;
  for (size_t j = 0; j < program.actions.size(); ++j)
    for (size_t i = 0; i < j; ++i)
      result += conflict(program.actions[i], program.actions[j]) && !reachable(i, j);
  return result;
}

class Dependencies : public ::testing::Test {
 protected:
  Mesh mesh_;
  Model model_ = toy_model();
};

Program random_program(const Model& model, const Mesh& mesh, uint32_t seed, int num_actions) {
  std::mt19937 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  Program program = empty_program(model, mesh);
  const int num_streams = 1 + static_cast<int>(below(5));
  while (static_cast<int>(program.streams.size()) < num_streams)
    program.comm_stream(TSR_WORLD_AXIS, "lane" + std::to_string(program.streams.size()));
  std::vector<uint64_t> buffers;
  for (uint64_t i = 0, n = 1 + below(8); i < n; ++i)
    buffers.push_back(transient(program, "b", 1 + below(40)));
  for (int i = 0; i < num_actions; ++i) {
    std::vector<Use> uses;
    for (uint64_t k = 0, n = below(4); k < n; ++k) {
      const uint64_t buffer = buffers[below(buffers.size())], length = program.buffer(buffer).num_elements;
      const uint64_t offset = below(length);
      const Use use{buffer, static_cast<uint32_t>(1 + below(3)), static_cast<uint32_t>(k)};
      uses.push_back(below(3) ? use : use.at(offset, below(length - offset + 1)));
    }
    add_action(program, TSR_ACTION_CALL, static_cast<uint32_t>(below(program.streams.size())), uses);
  }
  return program;
}

TEST_F(Dependencies, ReadAfterWriteWriteAfterReadAndWriteAfterWriteByRange) {
  Program p = empty_program(model_, mesh_);
  const uint32_t comm = p.comm_stream(TSR_WORLD_AXIS, "gather");
  const uint64_t x = transient(p, "x", 10);
  add_action(p, TSR_ACTION_CALL, 0, {write(x).at(0, 5)});     // 0
  add_action(p, TSR_ACTION_CALL, comm, {write(x).at(5, 5)});  // 1: another range
  add_action(p, TSR_ACTION_CALL, comm, {read(x).at(4, 2)});   // 2: reads what both wrote; 1 is on its stream
  add_action(p, TSR_ACTION_CALL, 0, {add(x).at(0, 4)});       // 3: its own stream's range
  add_action(p, TSR_ACTION_CALL, 0, {write(x).at(4, 1)});     // 4: after 2 has read
  add_action(p, TSR_ACTION_CALL, comm, {read(x).at(0, 0)});   // 5: touches nothing
  derive_dependencies(p);
  const std::vector<Indices> expected = {{}, {}, {0}, {}, {2}, {}};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(p.actions[i].dependencies, expected[i]) << "action " << i;
}

TEST_F(Dependencies, OneActionThatReadsAndWritesARangeDoesNotWaitForItself) {
  Program p = empty_program(model_, mesh_);
  const uint64_t x = transient(p, "x", 8);
  const uint32_t comm = p.comm_stream(TSR_WORLD_AXIS, "gather");
  add_action(p, TSR_ACTION_CALL, 0, {write(x)});
  add_action(p, TSR_ACTION_ALL_GATHER, comm, {read(x).at(2, 2), add(x)});
  add_action(p, TSR_ACTION_CALL, 1, {add(x), read(x).at(0, 3)});
  derive_dependencies(p);
  EXPECT_EQ(p.actions[1].dependencies, Indices{0});
  EXPECT_EQ(p.actions[2].dependencies, Indices{1});
}

TEST_F(Dependencies, EveryConflictIsOrderedAndNoDependencyIsSpare) {
  size_t num_kept = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Program p = random_program(model_, mesh_, seed, 60);
    derive_dependencies(p);
    ASSERT_EQ(num_unordered(p), 0u) << "seed " << seed;
    if (seed % 5) continue;
    for (Action& action : p.actions)
      for (size_t k = 0; k < action.dependencies.size(); ++k) {
        const Indices all = action.dependencies;
        action.dependencies.erase(action.dependencies.begin() + static_cast<long>(k));
        EXPECT_GT(num_unordered(p), 0u) << "seed " << seed << ": a dependency on " << all[k] << " is spare";
        action.dependencies = all;
        ++num_kept;
      }
  }
  EXPECT_GT(num_kept, 300u);
}

TEST_F(Dependencies, ClocksAgreeWithReachability) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Program p = random_program(model_, mesh_, seed, 60);
    derive_dependencies(p);
    const VectorClocks clocks(p);
    const Reachable reachable(p);
    for (uint32_t j = 0; j < p.actions.size(); ++j)
      for (uint32_t i = 0; i < p.actions.size(); ++i)
        ASSERT_EQ(clocks.ordered(i, j), reachable(i, j)) << "seed " << seed << ", " << i << " before " << j;
  }
}

TEST_F(Dependencies, AddedWaitsReplaceWhatTheyImply) {
  Program p = empty_program(model_, mesh_);
  const uint32_t comm = p.comm_stream(TSR_WORLD_AXIS, "gather");
  const uint64_t x = transient(p, "x", 1);
  add_action(p, TSR_ACTION_CALL, 0, {write(x)});
  add_action(p, TSR_ACTION_CALL, 0, {});
  add_action(p, TSR_ACTION_CALL, comm, {read(x)});
  derive_dependencies(p);
  EXPECT_EQ(p.actions[2].dependencies, Indices{0});
  add_dependencies(p, {{1, 2}, {0, 1}, {1, 2}});
  EXPECT_EQ(p.actions[1].dependencies, Indices{});
  EXPECT_EQ(p.actions[2].dependencies, Indices{1});
}

TEST_F(Dependencies, WaitsThatDoNotPointBackwardsAreErrors) {
  Program p = random_program(model_, mesh_, 1, 4);
  expect_error([&] { add_dependencies(p, {{2, 2}}); }, {"action 2", "later"});
  expect_error([&] { add_dependencies(p, {{2, 9}}); }, {"action 9", "list of 4"});
  p.actions[1].dependencies = {3};
  expect_error([&] { VectorClocks clocks(p); }, {"action 1", "action 3"});
}

// 100 k actions with five bindings each, ranges of flat buffers among them, on seven streams.
TEST_F(Dependencies, ALongProgramIsDoneSoon) {
  constexpr int kUnits = 50, kPieces = 12, kActions = 100000;
  Program p = empty_program(model_, mesh_);
  for (const char* lane : {"gather", "reduce", "send", "recv"})
    p.comm_stream(TSR_WORLD_AXIS, lane);
  std::vector<uint64_t> flat, values;
  for (int i = 0; i < kUnits; ++i)
    flat.push_back(persistent(p, "unit", kPieces * 100));
  for (int i = 0; i < kActions; ++i)
    values.push_back(transient(p, "x", 1000));
  std::mt19937 random(1);
  for (int i = 0; i < kActions; ++i) {
    const uint64_t unit = flat[i / 20 % kUnits];
    if (i % 20 == 0) {
      add_action(p, TSR_ACTION_ALL_GATHER, 3 + random() % 4, {write(unit)});
      continue;
    }
    add_action(p, TSR_ACTION_CALL, i % 7 ? 0 : random() % 7,
               {read(unit).at(i % kPieces * 100, 100), read(unit).at((i + 1) % kPieces * 100, 50), write(values[i]),
                read(values[i - 1]), read(values[i - std::min(i, 19)])});
  }
  const auto start = std::chrono::steady_clock::now();
  derive_dependencies(p);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  size_t num_dependencies = 0;
  for (const Action& action : p.actions)
    num_dependencies += action.dependencies.size();
  std::cout << kActions << " actions, " << num_dependencies << " dependencies kept, " << seconds << " s\n";
  EXPECT_GT(num_dependencies, kActions / 10u);
  EXPECT_LT(seconds, kPatience.count());
}

// The other rank may receive what is sent later than it does what a buffer is reused for here.
TEST(AddableWaits, AreNoneForWhatWaitsForASend) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 2}});
  Program p = empty_program(model, mesh);
  const uint64_t x = transient(p, "x", 8), y = transient(p, "y", 8);
  add_action(p, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x)});
  add_action(p, TSR_ACTION_SEND, p.comm_stream(0, "x"), {read(x)}).peer = 1;
  add_action(p, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(x)}).scale = 2;
  add_action(p, TSR_ACTION_ZERO, TSR_STREAM_COPY_OUT, {write(y)});
  derive_dependencies(p);
  const VectorClocks clocks(p);
  EXPECT_TRUE(AddableWaits(p, clocks).allows(0, 3));
  EXPECT_FALSE(AddableWaits(p, clocks).allows(2, 3));
}

// Under --debug-memory. The other rank may be waiting for what follows a send or an exchange.
TEST(OrderLiveRanges, LetsNothingWaitForAMessageThatSends) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 2}});
  const auto waiters_of = [&](uint32_t kind) {
    Program p = empty_program(model, mesh);
    const uint64_t x = transient(p, "x", 8), y = transient(p, "y", 8);
    add_action(p, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x)});
    add_action(p, kind, p.comm_stream(0, "x"), {read(x)});
    add_action(p, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(x), write(y)});
    derive_dependencies(p);
    order_live_ranges(p);
    return p.actions[2].dependencies;
  };
  EXPECT_EQ(waiters_of(TSR_ACTION_SEND), Indices{});
  EXPECT_EQ(waiters_of(TSR_ACTION_EXCHANGE), Indices{});
}

}  // namespace
}  // namespace tessera::testing
