// What programs mean: whole GPT-2 programs and small ones by hand, right and with one thing wrong on all ranks alike.
#include <algorithm>

#include <gtest/gtest.h>

#include "passes/recompute.h"
#include "support/expect_diagnostic.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

void remove(Program& program, uint32_t kind, std::string_view stream = "", size_t n = 0) {
  const size_t index = nth_action(program, kind, stream, n);
  ASSERT_LT(index, program.actions.size());
  program.actions.erase(program.actions.begin() + static_cast<ptrdiff_t>(index));
}
void remove_stream(Program& program, std::string_view stream) {
  ASSERT_GT(std::erase_if(program.actions, [&](const Action& a) { return program.streams[a.stream].name == stream; }),
            0u);
}
Action& nth(Program& program, uint32_t kind, std::string_view stream = "", size_t n = 0) {
  return program.actions.at(nth_action(program, kind, stream, n));
}

// ---- GPT-2 under ddp ----

constexpr std::string_view kGradients = "comm.dp.gradient", kScalars = "comm.world.scalars";

class DdpMeaning : public ::testing::Test {
 protected:
  const Gpt2Ddp job_{4};
  Program program_ = job_.finished(1);
};

TEST_F(DdpMeaning, Clean) {
  for (const uint32_t reduce_every : {TSR_EVERY_STEP, TSR_EVERY_MICRO_BATCH})
    for (const uint32_t purpose : {TSR_PURPOSE_INIT, TSR_PURPOSE_STEP, TSR_PURPOSE_EVAL}) {
      const Gpt2Ddp job(4, reduce_every);
      EXPECT_TRUE(is_clean(verify_placement(job.finished(3, purpose))));
    }
}

TEST_F(DdpMeaning, AllRanksForgetTheSums) {
  remove_stream(program_, kGradients);
  const Diagnostics diagnostics = verify_placement(program_);
  EXPECT_TRUE(has_diagnostic(diagnostics, "sum_squares wte.weight takes src0 = gradient wte, "));
  EXPECT_TRUE(has_diagnostic(diagnostics, "which is an unreduced partial sum over dp"));
}

TEST_F(DdpMeaning, AllRanksForgetOneSum) {
  remove(program_, TSR_ACTION_ALL_REDUCE, kGradients, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(program_), "which is an unreduced partial sum over dp"));
}

TEST_F(DdpMeaning, NoStrategyOnTheAxis) {
  Program program = job_.base(0);
  finalize_program(program);
  zero_pads(program);
  EXPECT_TRUE(has_diagnostic(verify_placement(program), "which is an unreduced partial sum over dp"));
}

TEST_F(DdpMeaning, SummedTwice) {
  const size_t index = nth_action(program_, TSR_ACTION_ALL_REDUCE, kGradients);
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(index), program_.actions[index]);
  EXPECT_TRUE(has_diagnostic(verify_placement(program_),
                             "which is the same on all ranks of dp: its sum over the axis has no meaning"));
}

TEST_F(DdpMeaning, SummedBeforeTheLastAddend) {
  const auto first = program_.actions.begin() + static_cast<ptrdiff_t>(nth_action(program_, TSR_ACTION_FORWARD));
  const auto sum =
      program_.actions.begin() + static_cast<ptrdiff_t>(nth_action(program_, TSR_ACTION_ALL_REDUCE, kGradients));
  // After the first micro-batch, when all gradients have been written once.
  const size_t second_micro_batch = static_cast<size_t>(
      std::find_if(first, program_.actions.end(), [](const Action& a) { return a.micro_batch == 1; }) -
      program_.actions.begin());
  std::rotate(program_.actions.begin() + static_cast<ptrdiff_t>(second_micro_batch), sum, sum + 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(program_), "adds what is an unreduced partial sum over dp to g0"));
}

TEST_F(DdpMeaning, AveragedInsteadOfSummed) {
  nth(program_, TSR_ACTION_ALL_REDUCE, kGradients).reduce = TSR_REDUCE_AVG;
  EXPECT_TRUE(has_diagnostic(verify_placement(program_), "scaled by 0.25"));
}

TEST_F(DdpMeaning, MinimumOrMaximumInsteadOfSum) {
  for (const uint32_t reduce : {TSR_REDUCE_MIN, TSR_REDUCE_MAX}) {
    nth(program_, TSR_ACTION_ALL_REDUCE, kGradients).reduce = reduce;
    EXPECT_TRUE(has_diagnostic(verify_placement(program_), "its minimum or maximum over the axis has no meaning"));
  }
}

TEST_F(DdpMeaning, ScaledGradient) {
  const size_t sum = nth_action(program_, TSR_ACTION_ALL_REDUCE, kGradients);
  Action scale;
  scale.kind = TSR_ACTION_SCALE;
  scale.scale = 0.5;
  scale.bindings = program_.actions[sum].bindings;
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(sum), scale);
  EXPECT_TRUE(
      has_diagnostic(verify_placement(program_), "scaled by 0.500000: only the loss is scaled, strategies must sum"));
  scale.scale = 2;
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(sum) + 2, scale);
  EXPECT_TRUE(is_clean(verify_placement(program_)));
}

TEST_F(DdpMeaning, PartOfABucketIsSummed) {
  nth(program_, TSR_ACTION_ALL_REDUCE, kGradients).bindings[0].num_elements = 1;
  EXPECT_TRUE(has_diagnostic(verify_placement(program_), "which is an unreduced partial sum over dp"));
}

TEST_F(DdpMeaning, NormIsNotSummed) {
  remove(program_, TSR_ACTION_ALL_REDUCE, kScalars, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(program_),
                             "clip squares takes x0 = accumulator squares, which is an unreduced partial sum over "
                             "dp: the norm would be that of one part"));
}

TEST_F(DdpMeaning, LossIsNotSummed) {
  remove(program_, TSR_ACTION_ALL_REDUCE, kScalars, 0);
  EXPECT_TRUE(
      has_diagnostic(verify_placement(program_), "rank 1 ends with a loss that is an unreduced partial sum over dp"));
}

TEST_F(DdpMeaning, AccumulatorsAreNotZeroed) {
  remove(program_, TSR_ACTION_ZERO);
  EXPECT_TRUE(has_diagnostic(verify_placement(program_),
                             "accumulator loss, which is the same on all ranks of dp: such a sum has no meaning"));
}

TEST_F(DdpMeaning, ActivationsAreSummed) {
  const size_t forward = nth_action(program_, TSR_ACTION_FORWARD, "", 2);
  Action sum = nth(program_, TSR_ACTION_ALL_REDUCE, kGradients);
  const Binding& out = *program_.actions[forward].find(TSR_SLOT(TSR_ROLE_OUTPUT, 0));
  sum.bindings = {{out.buffer, out.offset, out.num_elements, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_ADD}};
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(forward) + 1, sum);
  EXPECT_TRUE(has_diagnostic(verify_placement(program_),
                             "which is different on each rank of dp: its sum over the axis has no meaning"));
}

TEST_F(DdpMeaning, InitBroadcastsSplitHomes) {
  Program init = job_.finished(0, TSR_PURPOSE_INIT);
  LayoutEntry& split = init.layout.emplace_back();
  split.parameter = 0;
  split.axis = 0;
  split.kind = TSR_LAYOUT_SPLIT;
  EXPECT_TRUE(has_diagnostic(verify_placement(init),
                             "rank 0 home wte.weight: its value, home wte, is split over dp before the program, "
                             "and after it the same on all ranks of dp"));
}

// ---- GPT-2 on axes that split layers and tensors, its passes done by hand ----

class OtherAxes : public ::testing::Test {
 protected:
  OtherAxes()
      : model_(make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 32},
                         {.batch = 1, .seq = 8})) {}

  Program base(const Mesh& mesh) const {
    return build_program(model_, mesh, mesh.coordinates(0), {}, layout_, TSR_PURPOSE_STEP,
                         [](const tsr_op& op) { return cpu::describe(op); });
  }
  LayoutEntry& split(std::string_view parameter, uint32_t kind = TSR_LAYOUT_SPLIT, int dim = -1) {
    LayoutEntry& entry = layout_.emplace_back();
    entry.parameter = model_.parameter(parameter);
    entry.axis = 0;
    entry.kind = kind;
    entry.dim = dim;
    return entry;
  }
  /// Over stages, of which the first and the last share the tied embedding.
  Program over_stages(const Mesh& stages) {
    for (const Parameter& parameter : model_.parameters)
      if (parameter.name != "wte.weight") split(parameter.name);
    split("wte.weight", TSR_LAYOUT_REPLICATED).coordinates = {0, stages.axes()[0].num_ranks - 1};
    Program program = base(stages);
    finalize_program(program);
    zero_pads(program);
    return program;
  }
  /// After each action of that kind and segment: the sum over the axis of what it binds to the slot.
  static void sum_after(Program& program, uint32_t kind, std::string_view segment, uint32_t slot) {
    const size_t index = static_cast<size_t>(
        std::ranges::find_if(
            program.actions,
            [&](const Action& a) { return a.kind == kind && program.model->segments[a.segment].name == segment; }) -
        program.actions.begin());
    Binding what = *program.actions.at(index).find(slot);
    what.slot = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
    what.mode = TSR_MODE_ADD;
    Action sum;
    sum.kind = TSR_ACTION_ALL_REDUCE;
    sum.reduce = TSR_REDUCE_SUM;
    sum.stream = program.comm_stream(0, "tensor");
    sum.group = program.group({0, {}});
    sum.bindings = {what};
    program.actions.insert(program.actions.begin() + static_cast<ptrdiff_t>(index) + 1, sum);
  }

  const Model model_;
  const Mesh stages_{{{"pp", 2, TSR_SPLITS_LAYERS}}}, three_stages_{{{"pp", 3, TSR_SPLITS_LAYERS}}};
  Layout layout_;
};

class TensorMeaning : public OtherAxes {
 protected:
  TensorMeaning() {
    split("h.0.attn.c_attn.weight", TSR_LAYOUT_SPLIT, 1);
    split("h.0.attn.c_attn.bias", TSR_LAYOUT_SPLIT, 0);
    split("h.0.attn.c_proj.weight", TSR_LAYOUT_SPLIT, 0);
    split("h.0.mlp.c_fc.weight", TSR_LAYOUT_SPLIT, 1);
    split("h.0.mlp.c_fc.bias", TSR_LAYOUT_SPLIT, 0);
    split("h.0.mlp.c_proj.weight", TSR_LAYOUT_SPLIT, 0);
  }
  /// Columns then rows, as Megatron does; `without` names the segment whose sum is forgotten.
  Program lowered(std::string_view without) const { return lowered(base(mesh_), without); }
  Program lowered(Program program, std::string_view without) const {
    for (const char* segment : {"h.0.proj", "h.0.fc_proj"})
      if (segment != without) sum_after(program, TSR_ACTION_FORWARD, segment, TSR_SLOT(TSR_ROLE_OUTPUT, 0));
    for (const char* segment : {"h.0.qkv", "h.0.fc_gelu"})
      if (segment != without) sum_after(program, TSR_ACTION_BACKWARD, segment, TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0));
    finalize_program(program);
    zero_pads(program);
    return program;
  }
  const Mesh mesh_{{{"tp", 2, TSR_SPLITS_TENSORS}}};
};

TEST_F(TensorMeaning, Clean) {
  EXPECT_TRUE(is_clean(verify_placement(lowered(""))));
}

TEST_F(TensorMeaning, RowsAreNotSummedForward) {
  EXPECT_TRUE(has_diagnostic(verify_placement(lowered("h.0.proj")),
                             "forward h.0.add_ln_2 mb=0 takes i1 (h.0.projected) = activation "
                             "h.0.projected mb=0, which is an unreduced partial sum over tp"));
}

TEST_F(TensorMeaning, ColumnsAreNotSummedBackward) {
  EXPECT_TRUE(has_diagnostic(verify_placement(lowered("h.0.qkv")), "backward h.0.ln_1 mb=0 takes do0 (h.0.norm_1)"));
}

TEST_F(TensorMeaning, WhatIsComputedAgainIsSummedAgain) {
  const DescribeOp describe = [](const tsr_op& op) { return cpu::describe(op); };
  Program program = base(mesh_);
  program.step_config.recompute = {Recompute::What::blocks, 1};
  recompute_forward(program, describe);
  EXPECT_TRUE(has_diagnostic(verify_placement(lowered(program, "")),
                             "recompute h.0.add_ln_2 mb=0 takes i1 (h.0.projected) = activation "
                             "h.0.projected mb=0 again, which is an unreduced partial sum over tp"));
  sum_after(program, TSR_ACTION_RECOMPUTE, "h.0.proj", TSR_SLOT(TSR_ROLE_OUTPUT, 0));
  EXPECT_TRUE(is_clean(verify_placement(lowered(program, ""))));
}

TEST_F(TensorMeaning, RecomputationAfterTheSplitKeepsWhatWasSummed) {
  Program program = lowered("");
  program.step_config.recompute = {Recompute::What::blocks, 1};
  recompute_forward(program, [](const tsr_op& op) { return cpu::describe(op); });
  EXPECT_NE(nth_action(program, TSR_ACTION_RECOMPUTE), program.actions.size());
  EXPECT_TRUE(is_clean(verify_placement(program)));
}

TEST_F(TensorMeaning, SumOfWhatIsWhole) {
  Program program = lowered("");
  sum_after(program, TSR_ACTION_FORWARD, "h.0.add_ln_2", TSR_SLOT(TSR_ROLE_OUTPUT, 0));
  EXPECT_TRUE(has_diagnostic(verify_placement(program),
                             "which is the same on all ranks of tp: its sum over the axis has no meaning"));
}

TEST_F(TensorMeaning, SegmentsSplitDifferently) {
  layout_.pop_back();  // mlp.c_proj.weight whole, its input split
  Program program = base(mesh_);
  EXPECT_TRUE(has_diagnostic(verify_placement(program), "but the dim is split elsewhere: the segment works on parts"));
}

TEST_F(TensorMeaning, AParameterIsGatheredThatIsSplit) {
  Program program = lowered("");
  const size_t i = nth_action(program, TSR_ACTION_FORWARD, "", 2);
  const auto qkv = std::ranges::find_if(program.actions, [&](const Action& a) {
    return a.kind == TSR_ACTION_FORWARD && program.model->segments[a.segment].name == "h.0.qkv";
  });
  for (Binding& binding : qkv->bindings)
    if (binding.slot == TSR_SLOT(TSR_ROLE_PARAMETER, 0)) {
      binding = *program.actions[i].find(TSR_SLOT(TSR_ROLE_OUTPUT, 0));
      binding.slot = TSR_SLOT(TSR_ROLE_PARAMETER, 0);
      binding.mode = TSR_MODE_READ;
    }
  EXPECT_TRUE(has_diagnostic(verify_placement(program),
                             "which is the same on all ranks of tp: the layout places it differently"));
}

TEST_F(TensorMeaning, LossNeedsTheWholeVocabulary) {
  split("wte.weight", TSR_LAYOUT_SPLIT, 0);
  EXPECT_TRUE(has_diagnostic(verify_placement(base(mesh_)), "needs the whole of wte.weight, which is split over tp"));
}

TEST_F(TensorMeaning, PositionsAreCountedFromTheFirst) {
  split("wpe.weight", TSR_LAYOUT_SPLIT, 0);
  EXPECT_TRUE(has_diagnostic(verify_placement(base(mesh_)), "needs the whole of wpe.weight, which is split over tp"));
}

// Stages find a parameter where the layout says, and nothing on them is left to be summed but what several add to.
TEST_F(OtherAxes, WhatAStageTakesIsWhole) {
  const Program clean = over_stages(stages_);
  const auto forward_of = [](Program& p, std::string_view segment) -> Action& {
    return *std::ranges::find_if(p.actions, [&](const Action& a) {
      return a.kind == TSR_ACTION_FORWARD && p.model->segments[a.segment].name == segment;
    });
  };
  const auto rebind = [](Action& action, uint32_t slot, Binding to) {
    to.slot = slot;
    to.mode = TSR_MODE_READ;
    for (Binding& binding : action.bindings)
      if (binding.slot == slot) binding = to;
  };
  Program values = clean;  // an activation in a parameter's place
  rebind(forward_of(values, "h.0.qkv"), TSR_SLOT(TSR_ROLE_PARAMETER, 0),
         *forward_of(values, "h.0.ln_1").find(TSR_SLOT(TSR_ROLE_OUTPUT, 0)));
  EXPECT_TRUE(has_diagnostic(verify_placement(values),
                             "which is the same on all ranks of pp: the layout places it differently"));
  Program sums = clean;  // the tied embedding's gradient, of which each stage has a part, in a value's place
  const auto loss = std::ranges::find(sums.actions, uint32_t{TSR_ACTION_LOSS}, &Action::kind);
  Action& last = *std::ranges::find_if(std::reverse_iterator(sums.actions.end()), std::reverse_iterator(loss),
                                       [](const Action& a) { return a.kind == TSR_ACTION_BACKWARD; });
  rebind(last, TSR_SLOT(TSR_ROLE_OUTPUT_GRADIENT, 0), *loss->find(TSR_SLOT(TSR_ROLE_GRADIENT, 0)));
  EXPECT_TRUE(
      has_diagnostic(verify_placement(sums), "which is an unreduced partial sum over pp: the action needs the sum"));
}

TEST_F(OtherAxes, TiedGradientOverStages) {
  Program program = over_stages(stages_);
  EXPECT_TRUE(is_clean(verify_placement(program)));
  remove_stream(program, "comm.pp.completion");
  EXPECT_TRUE(
      has_diagnostic(verify_placement(program),
                     "sum_squares wte.weight takes src0 = gradient wte, which is an unreduced partial sum over pp"));
}

TEST_F(OtherAxes, TiedGradientOverOtherStages) {
  Program program = over_stages(three_stages_);
  EXPECT_TRUE(is_clean(verify_placement(program)));
  Group& tied = program.groups.at(nth(program, TSR_ACTION_ALL_REDUCE, "comm.pp.completion").group);
  ASSERT_EQ(tied.coordinates, (std::vector<int>{0, 2}));
  tied.coordinates = {0, 1};
  EXPECT_TRUE(has_diagnostic(verify_placement(program),
                             "is for pp {0,1} only, but the other ranks of pp hold a part of its operand too"));
}

// Of ranks with other parameters only the own slice is looked at.
TEST(SlicesOfOtherRanks, AreNotScaled) {
  const Model model = toy_model();
  for (const uint32_t splits : {TSR_SPLITS_BATCH, TSR_SPLITS_TENSORS, TSR_SPLITS_LAYERS}) {
    const Mesh mesh({{"dp", 2, TSR_SPLITS_BATCH}, {"other", 2, splits}});
    Program p = empty_program(model, mesh);
    const uint64_t same = persistent(p, "same", 64, TSR_BUFFER_SCALAR), all = transient(p, "all", 64);
    add_action(p, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(same), write(all)});
    add_action(p, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(all)}).scale = 0.5;
    add_action(p, TSR_ACTION_ALL_GATHER, p.comm_stream(0, "test"), {add(all)}).group = p.group({0, {}});
    const Diagnostics found = verify_placement(p);
    if (splits == TSR_SPLITS_BATCH)
      EXPECT_TRUE(is_clean(found));
    else
      EXPECT_TRUE(has_diagnostic(found, "the others would take it for what it was before it was scaled")) << splits;
  }
}

}  // namespace
}  // namespace tessera::testing
