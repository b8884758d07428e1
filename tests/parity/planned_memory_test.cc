// What a sharded strategy promises of memory, read from the programs it makes: shares of the states, copies alive at
// once, unsharded gradients alive at once. Nothing runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "fsdp.h"
#include "memory/memory_plan.h"
#include "passes/dependencies.h"
#include "sharding.h"
#include "support/compiled_job.h"
#include "support/expect_error.h"
#include "support/local_job.h"

namespace tessera::testing {
namespace {

std::vector<std::string> flags(std::vector<std::string> more) {
  more.insert(more.end(), {"--model=" + golden_folder(), "--batch-size=1", "--seq-len=16"});
  return more;
}

struct Life {
  const Buffer* buffer;
  size_t first, last;
};

/// The lives of the transient buffers of one kind, in list order.
std::vector<Life> lives(const Program& program, uint32_t kind) {
  std::map<uint64_t, Life> by_id;
  for (size_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& b : program.actions[i].bindings) {
      const Buffer& buffer = program.buffer(b.buffer);
      if (buffer.kind == kind && !buffer.persistent)
        by_id.try_emplace(b.buffer, Life{&buffer, i, i}).first->second.last = i;
    }
  std::vector<Life> result;
  for (const auto& [id, life] : by_id)
    result.push_back(life);
  return result;
}

size_t most_alive(const std::vector<Life>& lives) {
  size_t most = 0;
  for (const Life& at : lives)
    most = std::max(most, static_cast<size_t>(std::ranges::count_if(lives, [&](const Life& life) {
                      return life.first <= at.first && at.first <= life.last;
                    })));
  return most;
}

/// Elements of a role over all homes of a rank.
uint64_t elements_of(const Program& program, uint32_t role) {
  uint64_t num_elements = 0;
  for (const Home& home : program.homes)
    num_elements += home.roles[role].num_elements;
  return num_elements;
}

/// The same of a rank that holds all, with what lies between parameters in their buffers.
uint64_t whole_elements_of(const CompiledJob& one, uint32_t role) {
  std::map<uint64_t, uint64_t> buffers;
  for (const Home& home : one.step(0).homes)
    if (const uint64_t id = home.roles[role].buffer) buffers[id] = one.step(0).buffer(id).num_elements;
  uint64_t num_elements = 0;
  for (const auto& [id, of_buffer] : buffers)
    num_elements += of_buffer;
  return num_elements;
}

class States : public ::testing::TestWithParam<int> {};

TEST_P(States, OfFullShardAreAnEqualShare) {
  const CompiledJob one(flags({}), 1), all(flags({"--strategy=fsdp"}), GetParam());
  const auto n = static_cast<uint64_t>(GetParam());
  for (int rank = 0; rank < GetParam(); ++rank)
    for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V}) {
      const uint64_t whole = whole_elements_of(one, role), share = elements_of(all.step(rank), role);
      EXPECT_GE(share * n, whole);
      EXPECT_LE(share, whole / n + all.step(rank).homes.size() * fsdp::kSliceAlignment);
    }
  // And the arena keeps no other copy of them.
  uint64_t persistent = 0;
  for (const Buffer& buffer : all.step(0).buffers)
    if (buffer.persistent && (buffer.kind == TSR_BUFFER_HOME || buffer.kind == TSR_BUFFER_OPTIMIZER))
      persistent += buffer.num_elements;
  EXPECT_EQ(persistent, elements_of(all.step(0), TSR_HOME_VALUE) + elements_of(all.step(0), TSR_HOME_M) +
                            elements_of(all.step(0), TSR_HOME_V));
}

TEST_P(States, OfOptimizerOnlyAreWholeValuesAndAShareOfTheRest) {
  const CompiledJob one(flags({}), 1);
  const CompiledJob all(flags({"--strategy=fsdp", "--fsdp.sharding=optimizer_only"}), GetParam());
  const auto n = static_cast<uint64_t>(GetParam());
  uint64_t values = 0;
  for (const Buffer& buffer : all.step(0).buffers)
    if (buffer.persistent && buffer.kind == TSR_BUFFER_HOME) values += buffer.num_elements;
  EXPECT_GE(values, whole_elements_of(one, TSR_HOME_VALUE));
  const uint64_t pads = all.step(0).homes.size() * fsdp::kSliceAlignment;
  EXPECT_LE(values, whole_elements_of(one, TSR_HOME_VALUE) + n * pads);
  EXPECT_LE(elements_of(all.step(0), TSR_HOME_M), whole_elements_of(one, TSR_HOME_M) / n + pads);
}

TEST_P(States, OfZero3AddUpToOneModel) {
  const CompiledJob one(flags({}), 1), all(flags({"--strategy=zero3"}), GetParam());
  for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V}) {
    uint64_t sum = 0;
    for (int rank = 0; rank < GetParam(); ++rank)
      sum += elements_of(all.step(rank), role);
    EXPECT_EQ(sum, whole_elements_of(one, role));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, States, ::testing::Values(2, 4, 8));

// ---- copies alive at once ----

TEST(Gathered, AtMostOneInUseAndThoseAhead) {
  for (const std::string plugin : {"fsdp", "zero3"})
    for (const int num_ranks : {2, 4, 8})
      for (const int prefetch : {0, 1, 2, 3})
        for (const char* backward : {"pre", "post", "none"}) {
          const CompiledJob job(
              flags({"--strategy=" + plugin, "--grad-accum=2", "--" + plugin + ".prefetch=" + std::to_string(prefetch),
                     "--" + plugin + ".backward-prefetch=" + backward}),
              num_ranks);
          const auto copies = lives(job.step(0), TSR_BUFFER_GATHERED);
          EXPECT_FALSE(copies.empty());
          EXPECT_LE(most_alive(copies), 1u + static_cast<size_t>(prefetch)) << plugin << " " << prefetch << backward;
        }
}

TEST(Gathered, AtMostTheLimit) {
  for (const std::string plugin : {"fsdp", "zero3"})
    for (const char* recompute : {"none", "full"})
      for (const int limit : {1, 2, 3}) {
        const CompiledJob job(
            flags({"--strategy=" + plugin, std::string("--recompute=") + recompute, "--" + plugin + ".prefetch=5",
                   "--" + plugin + ".limit-all-gathers=" + std::to_string(limit)}),
            4);
        EXPECT_EQ(most_alive(lives(job.step(0), TSR_BUFFER_GATHERED)), static_cast<size_t>(limit)) << plugin;
      }
}

TEST(Gathered, ALimitBelowWhatOneActionUsesIsRefused) {
  // With frozen biases a block is two groups, of what trains and what does not.
  const auto job = [](const char* limit) {
    return CompiledJob(flags({"--strategy=fsdp", "--freeze=*.bias", std::string("--fsdp.limit-all-gathers=") + limit}),
                       2);
  };
  expect_error([&] { job("1"); }, {"a limit of 1 unsharded units", "raise the limit"});
  EXPECT_TRUE(job("2").diagnostics().empty());
}

TEST(Gathered, KeptCopiesAreMadeOnceAStep) {
  for (const std::string sharding : {"--fsdp.sharding=shard_grad_op", "--fsdp.reshard-after-forward=false"}) {
    const CompiledJob job(flags({"--strategy=fsdp", sharding, "--grad-accum=3"}), 2);
    EXPECT_EQ(lives(job.step(0), TSR_BUFFER_GATHERED).size(), job.job().model.units.size()) << sharding;
  }
}

// ---- unsharded gradients alive at once ----

/// Gradients that a reduce-scatter takes: whole units.
std::vector<Life> unsharded_gradients(const Program& program) {
  std::set<uint64_t> scattered;
  for (const Action& action : program.actions)
    if (action.kind == TSR_ACTION_REDUCE_SCATTER) scattered.insert(action.bindings[0].buffer);
  std::vector<Life> result = lives(program, TSR_BUFFER_GRADIENT);
  std::erase_if(result, [&](const Life& life) { return !scattered.contains(life.buffer->id); });
  return result;
}

TEST(Gradients, ReducedEveryMicroBatchAreOneUnitBesideTheTiedEmbedding) {
  const CompiledJob job(flags({"--strategy=fsdp", "--grad-accum=3", "--reduce-every=micro-batch"}), 4);
  std::vector<Life> gradients = unsharded_gradients(job.step(0));
  EXPECT_EQ(gradients.size(), 3 * job.job().model.units.size());
  // The tied embedding's begins at the loss and is complete at the end of the backward.
  const auto embedding =
      std::erase_if(gradients, [](const Life& life) { return life.buffer->name.starts_with("wte"); });
  EXPECT_EQ(embedding, 3u);
  EXPECT_EQ(most_alive(gradients), 1u);
  EXPECT_EQ(most_alive(unsharded_gradients(job.step(0))), 2u);
}

TEST(Gradients, ReducedEveryStepAreAllUnitsFromTheFirstMicroBatchOn) {
  const CompiledJob job(flags({"--strategy=fsdp", "--grad-accum=3"}), 4);
  const std::vector<Life> gradients = unsharded_gradients(job.step(0));
  EXPECT_EQ(gradients.size(), job.job().model.units.size());
  EXPECT_EQ(most_alive(gradients), gradients.size());
  const CompiledJob once(flags({"--strategy=fsdp"}), 4);
  EXPECT_EQ(most_alive(unsharded_gradients(once.step(0))), 2u);  // with one micro-batch: one unit and the embedding
}

// ---- programs that are equal, and a job whose ranks are more than its tensors ----

/// All of a rank's programs as text.
std::string texts(const std::vector<std::string>& more) {
  const CompiledJob job(flags(more), 3);
  EXPECT_TRUE(job.diagnostics().empty());
  std::string all;
  for (const Program* program : job.of(1).all())
    all += print_program(*program);
  return all;
}

TEST(Programs, ThatDifferentOptionsMakeAlike) {
  const std::string full = "--fsdp.sharding=full_shard", once = "--fsdp.sharding=shard_grad_op";
  EXPECT_EQ(texts({"--strategy=fsdp", full, "--fsdp.reshard-after-forward=false"}), texts({"--strategy=fsdp", once}));
  EXPECT_EQ(texts({"--strategy=fsdp", once, "--fsdp.reshard-after-forward=true"}), texts({"--strategy=fsdp", full}));
  // With one copy alive there is nothing to fetch ahead, and with one group nothing that could be.
  for (const std::string only : {"--fsdp.limit-all-gathers=1", "--fsdp.wrap=root"})
    for (const char* prefetch : {"--fsdp.prefetch=1", "--fsdp.prefetch=3"})
      for (const char* backward : {"pre", "post", "none"})
        EXPECT_EQ(texts({"--strategy=fsdp", only, prefetch, std::string("--fsdp.backward-prefetch=") + backward}),
                  texts({"--strategy=fsdp", only, "--fsdp.prefetch=0"}))
            << only << prefetch << backward;
  EXPECT_NE(texts({"--strategy=fsdp", "--fsdp.prefetch=3"}), texts({"--strategy=fsdp"}));
}

TEST(Programs, OfRanksWithoutATensorMeetThoseOfTheOthers) {
  for (const char* stage : {"1", "2", "3"}) {
    const CompiledJob job(flags({"--strategy=zero3", std::string("--zero3.stage=") + stage}), 64);
    EXPECT_TRUE(job.step(63).homes.empty());
    EXPECT_EQ(job.diagnostics(), Diagnostics{});
  }
  EXPECT_EQ(CompiledJob(flags({"--strategy=fsdp"}), 64).diagnostics(), Diagnostics{});
}

// ---- waits that let buffers share addresses ----

/// The dependencies that planning with this budget adds to a step's own.
size_t num_added_waits(RankPrograms programs, double budget) {
  Program& step = programs.steps.front();
  const auto count = [&] {
    size_t num = 0;
    for (const Action& action : step.actions)
      num += action.dependencies.size();
    return num;
  };
  for (Action& action : step.actions)
    action.dependencies.clear();
  derive_dependencies(step);
  const size_t derived = count();
  Program* const only[] = {&step};
  plan_memory(only, budget);
  return count() - derived;
}

// Waits cost overlap. Without limits far below the top of the arena, these steps waited wherever the smallest arena
// does.
TEST(Waits, AreFewWithinTheBudget) {
  for (const auto& [strategy, num_ranks] : {std::pair("fsdp", 8), std::pair("zero3", 3)}) {
    const CompiledJob job({"--model=gpt2_xl", std::string("--strategy=") + strategy}, num_ranks);
    const size_t smallest = num_added_waits(job.of(0), 0), within_budget = num_added_waits(job.of(0), kDeviceBudget);
    EXPECT_LE(2 * within_budget, smallest) << strategy << ": " << within_budget << " of " << smallest;
  }
}

}  // namespace
}  // namespace tessera::testing
