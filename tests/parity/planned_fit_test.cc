// What docs/offload.md promises of the policy `fit`, read from the programs: the run fits two thirds of the memory that
// it takes without offload, under every strategy, and moves less than the policies that move all they can. Nothing
// runs.
#include <gtest/gtest.h>

#include "plan/moved.h"
#include "support/compiled_job.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Layout {
  const char* name;
  int num_ranks;
  Flags flags;
};

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

/// A GPT-2 of 12 blocks, whose states are 10 times its largest unit.
class DeepModel {
 public:
  explicit DeepModel(const Layout& layout) : layout_(layout) {
    folder_.write("config.json",
                  R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-5, "vocab_size": 512, "n_embd": 128,
                      "n_positions": 128, "n_head": 4, "n_layer": 12, "activation_function": "gelu_new"})");
  }

  CompiledJob plan(const Flags& more) const {
    return CompiledJob(
        layout_.flags + more +
            Flags{"--model=" + folder_.path(), "--seq-len=128", "--batch-size=2", "--offload-chunk=64KiB"},
        layout_.num_ranks);
  }
  uint64_t arena_bytes(const CompiledJob& job) const {
    uint64_t most = 0;
    for (int rank = 0; rank < layout_.num_ranks; ++rank)
      most = std::max(most, job.of(rank).arena_bytes(TSR_MEMORY_DEVICE));
    return most;
  }
  uint64_t moved_bytes(const CompiledJob& job) const {
    uint64_t all = 0;
    for (int rank = 0; rank < layout_.num_ranks; ++rank)
      all += moved_in(job.step(rank)).total().in_bytes + moved_in(job.step(rank)).total().out_bytes;
    return all;
  }

 private:
  Layout layout_;
  TempFolder folder_;
};

Flags fit(uint64_t limit) {
  return {"--offload=fit", "--device-memory=" + std::to_string(limit)};
}

class Fit : public ::testing::TestWithParam<Layout> {};

TEST_P(Fit, FitsLessMemoryAndMovesLessTheMoreThereIs) {
  const DeepModel run(GetParam());
  const uint64_t without = run.arena_bytes(run.plan({}));
  uint64_t last = run.moved_bytes(run.plan({"--offload=stream,activations", "--activations.min-bytes=0"}));
  for (const uint64_t percent : {67, 80, 90}) {
    const uint64_t limit = without * percent / 100;
    const CompiledJob job = run.plan(fit(limit));
    EXPECT_EQ(job.diagnostics(), Diagnostics());
    EXPECT_LE(run.arena_bytes(job), limit) << percent;
    const uint64_t moved = run.moved_bytes(job);
    EXPECT_GT(moved, 0u) << percent;
    EXPECT_LT(moved, last) << percent;
    last = moved;
  }
}

// What placement takes is then in no margin: the host asks again with less.
TEST_P(Fit, FitsWithoutAMargin) {
  const DeepModel run(GetParam());
  for (const uint64_t percent : {70, 85}) {
    const uint64_t limit = run.arena_bytes(run.plan({})) * percent / 100;
    EXPECT_LE(run.arena_bytes(run.plan(fit(limit) + Flags{"--fit.margin=0"})), limit) << percent;
  }
}

TEST_P(Fit, MovesNothingWhenTheRunFits) {
  const DeepModel run(GetParam());
  const uint64_t without = run.arena_bytes(run.plan({}));
  const CompiledJob job = run.plan(fit(without + without / 10));
  EXPECT_EQ(run.moved_bytes(job), 0u);
}

TEST_P(Fit, RefusesWhatCannotFit) {
  const DeepModel run(GetParam());
  expect_error([&] { run.plan(fit(100'000)); }, {"offload policy fit: ", "visit ", " alone needs ", "KiB"});
}

uint64_t evaluation_bytes(const Flags& more) {
  const CompiledJob job = DeepModel({"one", 1, {}}).plan(more);
  const MemoryPlan& plan = job.of(0).memory.back();
  return plan.use.at(TSR_MEMORY_DEVICE).arena_bytes;
}

// Its compute copies are cast block by block too, where the step's are.
TEST(Evaluation, OfParametersThatLeaveTakesAFewBlocks) {
  const uint64_t all = evaluation_bytes({"--dtype=bf16"});
  EXPECT_LT(evaluation_bytes({"--dtype=bf16", "--offload=stream"}), all / 4);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Fit,
    ::testing::Values(
        Layout{"one", 1, {}}, Layout{"one_bf16", 1, {"--dtype=bf16", "--grad-accum=3"}},
        Layout{"recompute", 1, {"--recompute=full"}}, Layout{"ddp", 2, {"--strategy=ddp"}},
        Layout{"fsdp", 2, {"--strategy=fsdp"}}, Layout{"zero3", 3, {"--strategy=zero3"}},
        Layout{"pipeline", 2, {"--mesh=pp=2", "--strategy=pp=pipeline", "--grad-accum=4"}},
        Layout{"tensor", 2, {"--mesh=tp=2", "--strategy=tp=tensor"}},
        Layout{"all", 8, {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor", "--grad-accum=4"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tessera::testing
