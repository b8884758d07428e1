#include "memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <iterator>
#include <set>

#include "passes/dependencies.h"
#include "program/collective_operands.h"
#include "support/expect_error.h"
#include "support/program_builder.h"
#include "unit/fsdp_like.h"
#include "unit/random_programs.h"

namespace tessera::testing {
using namespace host;
namespace {

std::vector<MemoryPlan> plan(std::vector<Program*> programs, double budget = kDeviceBudget, uint64_t guard_bytes = 0) {
  return plan_memory(programs, budget, guard_bytes);
}

struct Placed {
  const Buffer* buffer;
  uint64_t begin, end;
  std::vector<uint32_t> uses;  // actions
};

std::vector<Placed> placed_in(const Program& program, const MemoryPlan& memory_plan, uint32_t memory,
                              uint64_t guard_bytes) {
  std::map<uint64_t, Placed> by_id;
  for (const Buffer& buffer : program.buffers) {
    const auto found = memory_plan.address.find(buffer.id);
    if (buffer.memory != memory || found == memory_plan.address.end() || buffer.num_bytes() == 0) continue;
    by_id[buffer.id] = {&buffer, found->second, found->second + buffer.num_bytes() + guard_bytes, {}};
  }
  for (uint32_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& binding : program.actions[i].bindings)
      if (const auto found = by_id.find(binding.buffer); found != by_id.end()) found->second.uses.push_back(i);
  std::vector<Placed> result;
  for (auto& [id, placed] : by_id)
    result.push_back(std::move(placed));
  std::ranges::sort(result, {}, &Placed::begin);
  return result;
}

bool all_before(const VectorClocks& clocks, const Placed& a, const Placed& b) {
  return !a.uses.empty() && !b.uses.empty() && std::ranges::all_of(a.uses, [&](uint32_t first) {
    return std::ranges::all_of(b.uses, [&](uint32_t second) { return clocks.ordered(first, second); });
  });
}

// Buffers that share an address are transient, and the life of one ends before that of the other begins, in every order
// of execution.
void check_no_clash(const Program& program, const MemoryPlan& memory_plan, uint64_t guard_bytes = 0) {
  const VectorClocks clocks(program);
  for (const uint32_t memory : {TSR_MEMORY_DEVICE, TSR_MEMORY_HOST}) {
    const std::vector<Placed> all = placed_in(program, memory_plan, memory, guard_bytes);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i].begin % kBufferAlignment, 0u);
      ASSERT_LE(all[i].end, memory_plan.use.at(memory).arena_bytes);
      for (size_t j = i + 1; j < all.size() && all[j].begin < all[i].end; ++j) {
        ASSERT_FALSE(all[i].buffer->persistent || all[j].buffer->persistent)
            << all[i].buffer->name << " and " << all[j].buffer->name;
        ASSERT_TRUE(all_before(clocks, all[i], all[j]) || all_before(clocks, all[j], all[i]))
            << "%" << all[i].buffer->id << " and %" << all[j].buffer->id << " share an address unordered";
      }
    }
  }
}

using Waits = std::set<std::pair<uint32_t, uint32_t>>;

Waits waits_of(const Program& program) {
  Waits result;
  for (uint32_t i = 0; i < program.actions.size(); ++i)
    for (const uint32_t earlier : program.actions[i].dependencies)
      result.emplace(earlier, i);
  return result;
}

// After planning an action waits for no send that it did not wait for before, directly or on the send's stream; where
// other things than messages of the same ranks wait for sends, it waits for no other action with other ranks either.
size_t check_no_new_wait_on_other_ranks(const Program& before, const Program& after, bool is_strict) {
  const Waits old = waits_of(before);
  size_t num_new = 0;
  for (const auto& [earlier, action] : waits_of(after)) {
    if (old.contains({earlier, action})) continue;
    ++num_new;
    EXPECT_FALSE(sends(after.actions[earlier].kind)) << earlier << " " << action;
  }
  const VectorClocks old_clocks(before), new_clocks(after);
  for (uint32_t j = 0; j < before.actions.size() && is_strict; ++j)
    for (uint32_t i = 0; i < j; ++i)
      if (is_collective(before.actions[i].kind)) {
        EXPECT_EQ(old_clocks.ordered(i, j), new_clocks.ordered(i, j)) << i << " " << j;
      }
  return num_new;
}

double ratio(const MemoryUse& use) {
  return static_cast<double>(use.transient_bytes()) / static_cast<double>(use.live_peak_bytes);
}

class MemoryPlanTest : public ::testing::Test {
 protected:
  Mesh mesh_;
  Model model_ = toy_model();
};

TEST_F(MemoryPlanTest, BuffersInTurnShareOneAddress) {
  Program p = empty_program(model_, mesh_);
  const uint64_t a = transient(p, "a", 100), b = transient(p, "b", 100), c = transient(p, "c", 100);
  add_action(p, TSR_ACTION_CALL, 0, {write(a)});
  add_action(p, TSR_ACTION_CALL, 0, {read(a), write(b)});
  add_action(p, TSR_ACTION_CALL, 0, {read(b), write(c)});
  derive_dependencies(p);
  const MemoryPlan result = plan({&p})[0];
  EXPECT_EQ(result.address.at(a), 0u);
  EXPECT_EQ(result.address.at(b), 512u);  // 400 bytes, rounded up to 512
  EXPECT_EQ(result.address.at(c), 0u);
  const MemoryUse& use = result.use.at(TSR_MEMORY_DEVICE);
  EXPECT_EQ(use.arena_bytes, 1024u);
  EXPECT_EQ(use.live_peak_bytes, 1024u);
  EXPECT_EQ(use.peak_action, 1u);
  EXPECT_EQ(use.waste_bytes(), 0u);
  EXPECT_EQ(use.peak_bytes_by_kind.at(TSR_BUFFER_ACTIVATION), 1024u);
  EXPECT_TRUE(waits_of(p).empty());
}

TEST_F(MemoryPlanTest, AWaitIsAddedWhereStreamsShareAnAddress) {
  Program p = empty_program(model_, mesh_);
  const uint32_t comm = p.comm_stream(TSR_WORLD_AXIS, "gather");
  const uint64_t a = transient(p, "a", 64), b = transient(p, "b", 64);
  add_action(p, TSR_ACTION_CALL, 0, {write(a)});
  add_action(p, TSR_ACTION_CALL, 0, {read(a)});
  add_action(p, TSR_ACTION_ALL_GATHER, comm, {write(b)});
  derive_dependencies(p);
  const MemoryPlan result = plan({&p})[0];
  EXPECT_EQ(result.address.at(a), result.address.at(b));
  EXPECT_EQ(waits_of(p), (Waits{{1, 2}}));
}

TEST_F(MemoryPlanTest, APlaceWithoutAWaitIsTakenWithinTheBudget) {
  Program p = empty_program(model_, mesh_);
  const uint32_t comm = p.comm_stream(TSR_WORLD_AXIS, "gather");
  const uint64_t a = transient(p, "a", 64), b = transient(p, "b", 64);
  add_action(p, TSR_ACTION_CALL, 0, {write(a)});
  add_action(p, TSR_ACTION_ALL_GATHER, comm, {write(b)});
  derive_dependencies(p);
  const MemoryPlan result = plan({&p}, 2.0)[0];
  EXPECT_NE(result.address.at(a), result.address.at(b));
  EXPECT_TRUE(waits_of(p).empty());
}

TEST_F(MemoryPlanTest, NothingWaitsForASendToReuseItsBuffer) {
  for (const uint32_t kind : {TSR_ACTION_SEND, TSR_ACTION_EXCHANGE}) {
    Program p = empty_program(model_, mesh_);
    const uint32_t comm = p.comm_stream(TSR_WORLD_AXIS, "send");
    const uint64_t a = transient(p, "a", 64), b = transient(p, "b", 64), c = transient(p, "c", 64);
    add_action(p, TSR_ACTION_CALL, 0, {write(a)});
    add_action(p, kind, comm, {read(a)});
    add_action(p, TSR_ACTION_CALL, 0, {write(b)});     // not ordered after the send
    add_action(p, TSR_ACTION_CALL, comm, {write(c)});  // after the send anyway
    derive_dependencies(p);
    const Waits before = waits_of(p);
    const MemoryPlan result = plan({&p})[0];
    EXPECT_NE(result.address.at(a), result.address.at(b));
    EXPECT_EQ(result.address.at(a), result.address.at(c));
    EXPECT_EQ(waits_of(p), before);
  }
}

// Rank 0's part of
//
//     rank 0    send A to 1   recv B from 2 on the same stream   u reads B   f writes G   send G to 1
//     rank 1    recv G   recv A, which waits for G               rank 2   send B to 0
//
// B could share its address with G if f waited for u. But u waits for B, the receive of B for the end of the send
// before it, that for rank 1's receive of A, and so for G and f.
TEST_F(MemoryPlanTest, NothingWaitsForWhatFollowsASendOnItsStream) {
  Program p = empty_program(model_, mesh_);
  const uint32_t comm = p.comm_stream(TSR_WORLD_AXIS, "a"), other = p.comm_stream(TSR_WORLD_AXIS, "b");
  const uint64_t a = persistent(p, "A", 64), b = transient(p, "B", 64), g = transient(p, "G", 64);
  add_action(p, TSR_ACTION_SEND, comm, {read(a)});
  add_action(p, TSR_ACTION_RECV, comm, {write(b)});
  add_action(p, TSR_ACTION_CALL, 0, {read(b)});
  add_action(p, TSR_ACTION_CALL, 1, {write(g)});
  add_action(p, TSR_ACTION_SEND, other, {read(g)});
  derive_dependencies(p);
  const Waits before = waits_of(p);
  const MemoryPlan result = plan({&p}, 0)[0];
  EXPECT_NE(result.address.at(b), result.address.at(g));
  EXPECT_EQ(waits_of(p), before);
}

TEST_F(MemoryPlanTest, AnInPlaceActionKeepsItsBuffersApart) {
  Program p = empty_program(model_, mesh_);
  const uint64_t a = transient(p, "a", 64), b = transient(p, "b", 64);
  add_action(p, TSR_ACTION_CALL, 0, {write(a)});
  add_action(p, TSR_ACTION_CAST, 0, {read(a), write(b)});
  derive_dependencies(p);
  const MemoryPlan result = plan({&p})[0];
  EXPECT_NE(result.address.at(a), result.address.at(b));
}

TEST_F(MemoryPlanTest, InputsLiveFromTheStartAndScalarsToTheEnd) {
  Program p = empty_program(model_, mesh_);
  const uint64_t x = transient(p, "x", 64), tokens = transient(p, "tokens", 64, TSR_BUFFER_INPUT, TSR_I32);
  const uint64_t loss = transient(p, "loss", 20, TSR_BUFFER_ACCUMULATOR, TSR_I64), y = transient(p, "y", 40);
  add_action(p, TSR_ACTION_CALL, 0, {write(x)});
  add_action(p, TSR_ACTION_CALL, 0, {read(tokens)});
  add_action(p, TSR_ACTION_CALL, 0, {write(loss)});
  add_action(p, TSR_ACTION_CALL, 0, {write(y)});
  derive_dependencies(p);
  const MemoryPlan result = plan({&p})[0];
  EXPECT_NE(result.address.at(x), result.address.at(tokens));
  EXPECT_NE(result.address.at(loss), result.address.at(y));
  EXPECT_EQ(result.use.at(TSR_MEMORY_DEVICE).live_peak_bytes, 768u);
}

TEST_F(MemoryPlanTest, RandomProgramsHaveNoClashes) {
  constexpr Messages kAll[] = {Messages::none, Messages::apart, Messages::anywhere};
  std::array<size_t, std::size(kAll)> num_new{};
  size_t num_old = 0;
  double worst = 1;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const double budget = seed % 4 == 0 ? 0.0 : seed % 4 == 1 ? kDeviceBudget : 1.3;
    const uint64_t guard_bytes = seed % 5 == 0 ? 64 : 0;
    const Messages messages = kAll[seed % std::size(kAll)];
    Program p = random_program(model_, mesh_, seed, 20 + static_cast<int>(seed), messages);
    const Program before = p;
    const MemoryPlan result = plan({&p}, budget, guard_bytes)[0];
    check_no_clash(p, result, guard_bytes);
    num_new[seed % std::size(kAll)] += check_no_new_wait_on_other_ranks(before, p, messages == Messages::anywhere);
    if (HasFailure()) FAIL() << "seed " << seed;
    num_old += waits_of(before).size();
    const VectorClocks old_clocks(before), new_clocks(p);
    for (uint32_t j = 0; j < p.actions.size(); ++j)
      for (uint32_t i = 0; i < j; ++i)
        ASSERT_LE(old_clocks.ordered(i, j), new_clocks.ordered(i, j));
    if (guard_bytes == 0) worst = std::max(worst, ratio(result.use.at(TSR_MEMORY_DEVICE)));
  }
  std::cout << "300 random programs: " << num_old << " waits derived, " << num_new[0] << " added without messages, "
            << num_new[1] << " with sends apart, " << num_new[2] << " elsewhere; arena/peak <= " << worst << "\n";
  EXPECT_GT(num_new[0], 100u);
  EXPECT_GT(num_new[1], 100u);
}

TEST_F(MemoryPlanTest, FsdpNeedsHardlyMoreThanWhatIsAlive) {
  for (const int prefetch : {0, 1, 2, 4})
    for (const int micro_batches : {1, 3})
      for (const uint64_t activation : {50000, 300000, 1000000}) {
        Shape shape;
        shape.prefetch = prefetch;
        shape.micro_batches = micro_batches;
        shape.activation = activation;
        Program p = FsdpLike(model_, mesh_, shape).take(), q = p;
        const size_t derived = waits_of(p).size();
        const MemoryPlan result = plan({&p})[0];
        check_no_clash(p, result);
        const MemoryUse& use = result.use.at(TSR_MEMORY_DEVICE);
        plan({&q}, 0.0);
        std::cout << "prefetch " << prefetch << ", " << micro_batches << " micro-batches, activation " << activation
                  << ": arena/peak " << ratio(use) << ", waits " << derived << " -> " << waits_of(p).size()
                  << " (budget 0: " << waits_of(q).size() << ")\n";
        EXPECT_LE(ratio(use), 1.10);
        EXPECT_GE(ratio(use), 1.0);
      }
}

TEST_F(MemoryPlanTest, EqualProgramsHaveEqualPlans) {
  Program p = random_program(model_, mesh_, 7, 200, Messages::apart), q = p;
  const MemoryPlan one = plan({&p})[0], two = plan({&q})[0];
  EXPECT_EQ(one.address, two.address);
  EXPECT_EQ(waits_of(p), waits_of(q));
}

TEST_F(MemoryPlanTest, PersistentBuffersHaveOneAddressInAllPrograms) {
  Program step = empty_program(model_, mesh_), eval = empty_program(model_, mesh_);
  const uint64_t a = persistent(step, "a", 100), m = persistent(step, "a", 100, TSR_BUFFER_OPTIMIZER);
  const uint64_t x = transient(step, "x", 100), eval_x = transient(eval, "x", 300);
  const uint64_t only_eval = persistent(eval, "z", 10), eval_a = persistent(eval, "a", 100);
  add_action(step, TSR_ACTION_CALL, 0, {write(x)});
  add_action(eval, TSR_ACTION_CALL, 0, {write(eval_x)});
  const std::vector<MemoryPlan> plans = plan({&step, &eval});
  EXPECT_EQ(plans[0].address.at(a), plans[1].address.at(eval_a));
  const std::set<uint64_t> addresses = {plans[0].address.at(a), plans[0].address.at(m), plans[1].address.at(only_eval)};
  EXPECT_EQ(addresses.size(), 3u);
  for (const MemoryPlan& one : plans)
    EXPECT_EQ(one.use.at(TSR_MEMORY_DEVICE).persistent_bytes, 512u + 512u + 256u);
  EXPECT_EQ(plans[0].address.at(x), 1280u);
  EXPECT_EQ(plans[1].address.at(eval_x), 1280u);
  EXPECT_EQ(plans[0].use.at(TSR_MEMORY_DEVICE).arena_bytes, 1280u + 512u);
  EXPECT_EQ(plans[1].use.at(TSR_MEMORY_DEVICE).arena_bytes, 1280u + 1280u);
  EXPECT_EQ(plans[1].use.at(TSR_MEMORY_DEVICE).peak_bytes_by_kind.at(TSR_BUFFER_HOME), 512u + 256u);
}

TEST_F(MemoryPlanTest, StrategiesHaveAStateEach) {
  const auto add_states = [](Program& program) {
    const uint64_t first = persistent(program, "state", 100, TSR_BUFFER_PLUGIN);
    const uint64_t second = persistent(program, "state", 50, TSR_BUFFER_PLUGIN);
    for (Buffer& buffer : program.buffers)
      if (buffer.id == first || buffer.id == second) buffer.strategy = buffer.id == first ? 0 : 1;
    return std::pair(first, second);
  };
  Program step = empty_program(model_, mesh_), eval = empty_program(model_, mesh_);
  const auto in_step = add_states(step), in_eval = add_states(eval);
  const std::vector<MemoryPlan> plans = plan({&step, &eval});
  EXPECT_NE(plans[0].address.at(in_step.first), plans[0].address.at(in_step.second));
  EXPECT_EQ(plans[0].address.at(in_step.first), plans[1].address.at(in_eval.first));
  EXPECT_EQ(plans[0].address.at(in_step.second), plans[1].address.at(in_eval.second));
}

TEST_F(MemoryPlanTest, ProgramsThatDisagreeOnAPersistentBufferAreErrors) {
  Program step = empty_program(model_, mesh_), eval = empty_program(model_, mesh_);
  eval.purpose = TSR_PURPOSE_EVAL;
  persistent(step, "h.0", 100);
  persistent(eval, "h.0", 101);
  expect_error(
      [&] {
        plan({&step, &eval});
      },
      {"the step and eval programs disagree on the persistent home buffer h.0: f32[100] in device memory and "
       "f32[101] in device memory; add it alike in all of them"});
  persistent(step, "h.0", 100);
  expect_error([&] { plan({&step}); }, {"the step program has the persistent home buffer h.0 twice"});
  const Mesh mesh({{"dp", 2}});
  Program init = empty_program(model_, mesh), other = empty_program(model_, mesh);
  init.purpose = TSR_PURPOSE_INIT;
  for (Program* program : {&init, &other}) {
    program->strategies = {{"local-sgd", 0}};
    persistent(*program, "velocity", 100, TSR_BUFFER_PLUGIN);
    program->buffers.back().strategy = 0;
  }
  other.buffers.back().state.version = 1;
  expect_error(
      [&] {
        plan({&init, &other});
      },
      {"the init and step programs describe the persistent plugin buffer velocity of strategy local-sgd on "
       "axis dp differently"});
}

TEST_F(MemoryPlanTest, ABufferThatNoMemoryCanHoldIsAnError) {
  Program p = empty_program(model_, mesh_);
  add_action(p, TSR_ACTION_CALL, 0, {write(transient(p, "huge", uint64_t{1} << 62))});
  expect_error([&] { plan({&p}); }, {"huge", "4611686018427387904"});
}

// Added up, their bytes would be few: modulo 2^64.
TEST_F(MemoryPlanTest, BuffersThatNoMemoryCanHoldTogetherAreAnError) {
  constexpr uint64_t kLargest = uint64_t{1} << 48;
  Program transients = empty_program(model_, mesh_), kept = empty_program(model_, mesh_);
  for (int i = 0; i < 8192; ++i) {
    add_action(transients, TSR_ACTION_CALL, 0,
               {write(transient(transients, "huge", kLargest, TSR_BUFFER_STAGING, TSR_F64, TSR_MEMORY_HOST))});
    persistent(kept, "huge" + std::to_string(i), kLargest);
  }
  expect_error([&] { plan({&transients}); }, {"the transient buffers in host memory", "more than 1152921504606846976"});
  expect_error([&] { plan({&kept}); }, {"the persistent buffers in device memory", "more than 1152921504606846976"});
}

TEST_F(MemoryPlanTest, GuardsAreLeftFreeBehindEveryBuffer) {
  Program p = empty_program(model_, mesh_);
  const uint64_t home = persistent(p, "home", 64), a = transient(p, "a", 64), b = transient(p, "b", 64);
  add_action(p, TSR_ACTION_CALL, 0, {write(a), write(b), add(home)});
  const MemoryPlan result = plan({&p}, kDeviceBudget, 64)[0];
  EXPECT_EQ(result.address.at(home), 0u);
  EXPECT_EQ(result.address.at(a), 512u);
  EXPECT_EQ(result.address.at(b), 1024u);
  EXPECT_EQ(result.use.at(TSR_MEMORY_DEVICE).arena_bytes, 1536u);
}

TEST_F(MemoryPlanTest, ALongProgramTakesASecond) {
  Shape shape;
  shape.blocks = 24;
  shape.micro_batches = 32;
  Program p = FsdpLike(model_, mesh_, shape).take();
  const auto start = std::chrono::steady_clock::now();
  const MemoryPlan result = plan({&p})[0];
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << p.actions.size() << " actions, " << p.buffers.size() << " buffers: " << seconds << " s, arena/peak "
            << ratio(result.use.at(TSR_MEMORY_DEVICE)) << "\n";
  EXPECT_LE(ratio(result.use.at(TSR_MEMORY_DEVICE)), 1.10);
}

/// A persistent buffer of 256 bytes in the host's memory.
uint64_t resting(Program& p) {
  const uint64_t id = persistent(p, "rests", 64, TSR_BUFFER_OPTIMIZER);
  p.buffers.back().memory = TSR_MEMORY_HOST;
  return id;
}

TEST(MemoryPlan, AMemoryOfPersistentBuffersAloneHasAnArena) {
  const Model model = toy_model();
  const Mesh mesh;
  Program p = empty_program(model, mesh);
  resting(p);
  EXPECT_EQ(plan({&p})[0].use.at(TSR_MEMORY_HOST).arena_bytes, 256u);
}

// Files are read and written in blocks.
TEST(MemoryPlan, WhatAStreamOfTheHostUsesBeginsOnABlock) {
  const Model model = toy_model();
  const Mesh mesh;
  Program p = empty_program(model, mesh);
  resting(p);
  const uint64_t read_here = transient(p, "read", 1024, TSR_BUFFER_STAGING, TSR_F32, TSR_MEMORY_HOST);
  add_action(p, TSR_ACTION_ZERO, p.host_stream("host"), {write(read_here)});
  EXPECT_EQ(plan({&p})[0].address.at(read_here), 4096u);
}

// Two collectives through the host's memory, one after the other in the list: on the host they need not wait.
TEST(MemoryPlan, HostMemoryIsGivenOutBeforeWaitsAre) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 2}});
  for (const uint32_t memory : {TSR_MEMORY_DEVICE, TSR_MEMORY_HOST}) {
    Program p = empty_program(model, mesh);
    for (const char* lane : {"a", "b"}) {
      const uint64_t x = transient(p, lane, 1024, TSR_BUFFER_STAGING, TSR_F32, memory);
      add_action(p, TSR_ACTION_ZERO, TSR_STREAM_COPY_OUT, {write(x)});
      add_action(p, TSR_ACTION_ALL_REDUCE, p.comm_stream(0, lane), {add(x)}).group = p.group({0, {}});
    }
    derive_dependencies(p);
    const MemoryPlan planned = plan({&p})[0];
    const bool waits = VectorClocks(p).ordered(1, 2);
    EXPECT_EQ(waits, memory == TSR_MEMORY_DEVICE);
    EXPECT_EQ(planned.use.at(memory).arena_bytes, waits ? 4096u : 8192u);
  }
}

}  // namespace
}  // namespace tessera::testing
