// A run that goes on from a checkpoint is the run that never stopped, and any layout reads what any other has saved.
#include <gtest/gtest.h>

#include "checkpoint/load.h"
#include "parity/checkpoint_layouts.h"
#include "support/large_gradients.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;

/// Runs 6 steps and saves after 3 of them; the run that goes on from there must be the same.
void expect_same_when_resumed(const CheckpointLayout& layout, const Flags& more) {
  const TempFolder folder;
  Flags flags = more;
  flags.push_back("--steps=6");
  const RunResult plain = run_layout(layout, flags);
  flags.insert(flags.end(), {"--save=" + folder.path("run"), "--save-every=3"});
  const RunResult saving = run_layout(layout, flags);
  EXPECT_EQ(first_difference(plain, saving), "");
  flags = more;
  flags.insert(flags.end(),
               {"--steps=6", "--resume=" + folder.path("run/step-00000003"), "--save=" + folder.path("2")});
  const RunResult resumed = run_layout(layout, flags);
  ASSERT_EQ(resumed.steps.size(), 3u);
  EXPECT_EQ(resumed.steps[0].step, 4);
  EXPECT_EQ(first_difference(without_steps(plain, 3), resumed), "");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(resumed.steps[i].lr, plain.steps[i + 3].lr);
    EXPECT_EQ(resumed.steps[i].tokens, plain.steps[i + 3].tokens);
    EXPECT_EQ(resumed.steps[i].loss_scale, plain.steps[i + 3].loss_scale);
  }
  // Moments, too, and the position in the data.
  EXPECT_EQ(difference(Checkpoint(folder.path("run/step-00000006")), Checkpoint(folder.path("2/step-00000006"))), "");
}

class Layouts : public ::testing::TestWithParam<CheckpointLayout> {};

TEST_P(Layouts, ARunThatResumesIsTheRunThatNeverStopped) {
  expect_same_when_resumed(GetParam(), {});
}

TEST_P(Layouts, EveryFileIsWhatWasWritten) {
  const TempFolder folder;
  run_layout(GetParam(), {"--steps=1", "--save=" + folder.path()});
  EXPECT_TRUE(Checkpoint(folder.path("step-00000001")).verify().empty());
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, Layouts, ::testing::ValuesIn(checkpoint_layouts()),
                         [](const auto& test) { return test.param.name; });

/// Strategies over two data ranks have the same sums, so a run may change from one to the other between two steps.
TEST(Checkpoint, ARunThatChangesItsStrategyIsTheRunThatDidNot) {
  const Flags layouts = {"ddp2", "optimizer_only2", "zero3_2", "state_in_files"};
  const auto layout = [](const std::string& name) {
    return *std::ranges::find(checkpoint_layouts(), name, &CheckpointLayout::name);
  };
  const RunResult whole = run_layout(layout("ddp2"), {"--steps=6"});
  for (size_t i = 0; i < layouts.size(); ++i) {
    const TempFolder folder;
    run_layout(layout(layouts[i]), {"--steps=6", "--save=" + folder.path(), "--save-every=3"});
    const RunResult rest = run_layout(layout(layouts[(i + 1) % layouts.size()]),
                                      {"--steps=6", "--resume=" + folder.path("step-00000003")});
    EXPECT_EQ(first_difference(without_steps(whole, 3), rest), "") << layouts[i];
  }
}

/// A process that has trained reads an older state again, into the same memory.
TEST(Checkpoint, IsLoadedAgainAfterSteps) {
  for (const char* name : {"ddp2", "fsdp3", "state_in_files"}) {
    const CheckpointLayout& layout = *std::ranges::find(checkpoint_layouts(), name, &CheckpointLayout::name);
    const TempFolder folder;
    Flags flags = {"--steps=2", "--save=" + folder.path()};
    const RunResult two = run_layout(layout, flags);
    const auto load_again = [&](const Job&, const Dataset&, int, RankRuntime& runtime) {
      const Checkpoint saved(folder.path("step-00000002"));
      const Program& program = runtime.programs().first();
      const std::vector<HeldTensor> held = held_tensors(program);
      runtime.zero_state(loaded_places(held, LoadWhat::everything));
      load_tensors(saved, held, LoadWhat::everything,
                   {[&](const StatePlace& place) { return runtime.values_in_memory(place); },
                    [&](const StatePlace& place, std::span<const float> values) {
                      runtime.write_values(program.buffer(place.buffer), place.offset, values);
                    }});
      runtime.set_optimizer_step(saved.index().state.optimizer_step);
      runtime.run_init();
    };
    const RunResult again = run_layout(layout, {"--steps=5"}, load_again);
    EXPECT_EQ(again.steps.size(), 5u);
    EXPECT_EQ(again.num_missing + again.num_contradictions, 0u);
    EXPECT_TRUE(again.parameters == two.parameters) << name;
  }
}

TEST(Checkpoint, SgdKeepsItsMomentum) {
  expect_same_when_resumed(checkpoint_layouts()[2], {"--optimizer=sgd", "--beta1=0.9"});
}

TEST(Checkpoint, FrozenParametersKeepTheirType) {
  for (const size_t layout : {2, 3, 5})  // the last two split the optimizer's state alone, which these have none of
    expect_same_when_resumed(checkpoint_layouts()[layout], {"--freeze=wte*,h.1.*", "--dtype=bf16"});
}

/// Some of the first steps overflow and are skipped.
TEST(Checkpoint, TheLossScaleGoesOn) {
  const TempFolder model, folder;
  write_golden_model_with_large_gradients(model, 300);
  const Flags flags = {"--dtype=fp16", "--model=" + model.path()};
  expect_same_when_resumed(checkpoint_layouts()[1], flags);
  run_layout(checkpoint_layouts()[1],
             {"--dtype=fp16", "--model=" + model.path(), "--steps=3", "--save=" + folder.path()});
  const RunState state = Checkpoint(folder.path("step-00000003")).index().state;
  EXPECT_LT(state.loss_scale, 65536);
  EXPECT_LT(state.optimizer_step, state.step);
}

TEST(Checkpoint, AnotherTypeComputesWithTheSameParameters) {
  const TempFolder folder;
  const CheckpointLayout& one = checkpoint_layouts().front();
  run_layout(one, {"--steps=2", "--save=" + folder.path("a")});
  run_layout(one, {"--steps=2", "--dtype=bf16", "--resume=" + folder.path("a"), "--save=" + folder.path("b")});
  EXPECT_EQ(difference(Checkpoint(folder.path("a/step-00000002")), Checkpoint(folder.path("b/step-00000002"))), "");
}

TEST(Checkpoint, ARunCanBeginWithSavedParameters) {
  const TempFolder folder;
  const CheckpointLayout &one = checkpoint_layouts().front(), &tp = checkpoint_layouts()[7];
  run_layout(one, {"--steps=2", "--save=" + folder.path("a")});
  const RunResult run =
      run_layout(tp, {"--steps=1", "--init-from=" + folder.path("a"), "--freeze=wte*", "--save=" + folder.path("b")});
  const Checkpoint a(folder.path("a/step-00000002")), b(folder.path("b/step-00000001"));
  EXPECT_EQ(run.steps[0].step, 1);
  EXPECT_EQ(b.index().state.optimizer_step, 1);
  EXPECT_EQ(b.index().state.data_position, 12 * 12u);
  EXPECT_EQ(bits_of(a, "wte.weight"), bits_of(b, "wte.weight"));
  EXPECT_NE(bits_of(a, "wpe.weight"), bits_of(b, "wpe.weight"));
}

/// Examples are shuffled anew in each epoch; the run stops within the second.
TEST(Checkpoint, AClassifierGoesOnWithTheNextExamples) {
  const TempFolder folder;
  const auto run = [&](Flags more) {
    more.insert(more.end(), {"--model=mlp:64,16,10", "--data=" + source_dir("examples/digits/digits.csv.gz"),
                             "--batch-size=500", "--grad-accum=2", "--steps=6"});
    return run_local(more, 2);
  };
  const RunResult whole = run({"--save=" + folder.path(), "--save-every=3"});
  const RunResult rest = run({"--resume=" + folder.path("step-00000003"), "--strategy=fsdp"});
  EXPECT_EQ(first_difference(without_steps(whole, 3), rest), "");
}

}  // namespace
}  // namespace tessera::testing
