// What programs mean: whole GPT-2 programs and small ones by hand, right and with one thing wrong on all ranks alike.
#include <gtest/gtest.h>

#include <functional>

#include "support/expect_finding.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"

namespace tessera::testing {
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
  for (const uint32_t reduce_every : {TSR_REDUCE_EVERY_STEP, TSR_REDUCE_EVERY_MICRO_BATCH})
    for (const uint32_t purpose : {TSR_PURPOSE_INIT, TSR_PURPOSE_STEP, TSR_PURPOSE_EVAL}) {
      const Gpt2Ddp job(4, reduce_every);
      EXPECT_TRUE(is_clean(verify_meaning(job.finished(3, purpose))));
    }
}

TEST_F(DdpMeaning, AllRanksForgetTheSums) {
  remove_stream(program_, kGradients);
  const Findings findings = verify_meaning(program_);
  EXPECT_TRUE(has_finding(findings, "sum_squares wte.weight takes src0 = gradient wte, "));
  EXPECT_TRUE(has_finding(findings, "which is a sum over dp that nothing has taken yet"));
}

TEST_F(DdpMeaning, AllRanksForgetOneSum) {
  remove(program_, TSR_ACTION_ALL_REDUCE, kGradients, 1);
  EXPECT_TRUE(has_finding(verify_meaning(program_), "which is a sum over dp that nothing has taken yet"));
}

TEST_F(DdpMeaning, NoStrategyOnTheAxis) {
  Program program = job_.base(0);
  finish_program(program);
  EXPECT_TRUE(has_finding(verify_meaning(program), "which is a sum over dp that nothing has taken yet"));
}

TEST_F(DdpMeaning, SummedTwice) {
  const size_t index = nth_action(program_, TSR_ACTION_ALL_REDUCE, kGradients);
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(index), program_.actions[index]);
  EXPECT_TRUE(
      has_finding(verify_meaning(program_), "which is the same on all ranks of dp: a sum over it means nothing"));
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
  EXPECT_TRUE(has_finding(verify_meaning(program_), "adds what is a sum over dp that nothing has taken yet to g0"));
}

TEST_F(DdpMeaning, AveragedInsteadOfSummed) {
  nth(program_, TSR_ACTION_ALL_REDUCE, kGradients).reduce = TSR_REDUCE_AVG;
  EXPECT_TRUE(has_finding(verify_meaning(program_), "scaled by 0.25"));
}

TEST_F(DdpMeaning, MaximumInsteadOfSum) {
  nth(program_, TSR_ACTION_ALL_REDUCE, kGradients).reduce = TSR_REDUCE_MAX;
  EXPECT_TRUE(has_finding(verify_meaning(program_), "a minimum or maximum over it means nothing"));
}

TEST_F(DdpMeaning, ScaledGradient) {
  const size_t sum = nth_action(program_, TSR_ACTION_ALL_REDUCE, kGradients);
  Action scale;
  scale.kind = TSR_ACTION_SCALE;
  scale.scale = 0.5;
  scale.bindings = program_.actions[sum].bindings;
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(sum), scale);
  EXPECT_TRUE(
      has_finding(verify_meaning(program_), "scaled by 0.500000: the loss is scaled once, strategies only sum"));
  scale.scale = 2;
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(sum) + 2, scale);
  EXPECT_TRUE(is_clean(verify_meaning(program_)));
}

TEST_F(DdpMeaning, PartOfABucketIsSummed) {
  nth(program_, TSR_ACTION_ALL_REDUCE, kGradients).bindings[0].num_elements = 1;
  EXPECT_TRUE(has_finding(verify_meaning(program_), "which is a sum over dp that nothing has taken yet"));
}

TEST_F(DdpMeaning, NormIsNotSummed) {
  remove(program_, TSR_ACTION_ALL_REDUCE, kScalars, 1);
  EXPECT_TRUE(has_finding(verify_meaning(program_),
                          "clip squares takes x0 = accumulator squares, which is a sum over dp that "
                          "nothing has taken yet: the norm would be that of a part"));
}

TEST_F(DdpMeaning, LossIsNotSummed) {
  remove(program_, TSR_ACTION_ALL_REDUCE, kScalars, 0);
  EXPECT_TRUE(has_finding(verify_meaning(program_), "rank 1 ends with a loss that is a sum over dp"));
}

TEST_F(DdpMeaning, AccumulatorsAreNotZeroed) {
  remove(program_, TSR_ACTION_ZERO);
  EXPECT_TRUE(has_finding(verify_meaning(program_),
                          "accumulator loss, which is the same on all ranks of dp: the sum means nothing"));
}

TEST_F(DdpMeaning, ActivationsAreSummed) {
  const size_t forward = nth_action(program_, TSR_ACTION_FORWARD, "", 2);
  Action sum = nth(program_, TSR_ACTION_ALL_REDUCE, kGradients);
  const Binding& out = *program_.actions[forward].find(TSR_SLOT(TSR_ROLE_OUTPUT, 0));
  sum.bindings = {{out.buffer, out.offset, out.num_elements, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_ADD}};
  program_.actions.insert(program_.actions.begin() + static_cast<ptrdiff_t>(forward) + 1, sum);
  EXPECT_TRUE(
      has_finding(verify_meaning(program_), "which is different on each rank of dp: a sum over it means nothing"));
}

TEST_F(DdpMeaning, InitBroadcastsSplitHomes) {
  Program init = job_.finished(0, TSR_PURPOSE_INIT);
  Split& split = init.layout.emplace_back();
  split.parameter = 0;
  split.axis = 0;
  split.kind = TSR_LAYOUT_SPLIT;
  EXPECT_TRUE(has_finding(verify_meaning(init),
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
    return base_program(model_, mesh, mesh.coordinates(0), {}, layout_, TSR_PURPOSE_STEP,
                        [](const tsr_op& op) { return cpu::describe(op); });
  }
  Split& split(std::string_view parameter, uint32_t kind = TSR_LAYOUT_SPLIT, int dim = -1) {
    Split& entry = layout_.emplace_back();
    entry.parameter = model_.parameter(parameter);
    entry.axis = 0;
    entry.kind = kind;
    entry.dim = dim;
    return entry;
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
  Program lowered(std::string_view without) const {
    Program program = base(mesh_);
    for (const char* segment : {"h.0.proj", "h.0.fc_proj"})
      if (segment != without) sum_after(program, TSR_ACTION_FORWARD, segment, TSR_SLOT(TSR_ROLE_OUTPUT, 0));
    for (const char* segment : {"h.0.qkv", "h.0.fc_gelu"})
      if (segment != without) sum_after(program, TSR_ACTION_BACKWARD, segment, TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0));
    finish_program(program);
    // Every rank of this axis has the whole loss.
    remove(program, TSR_ACTION_ALL_REDUCE, kScalars, 0);
    return program;
  }
  const Mesh mesh_{{{"tp", 2, TSR_SPLITS_TENSORS}}};
};

TEST_F(TensorMeaning, Clean) {
  EXPECT_TRUE(is_clean(verify_meaning(lowered(""))));
}

TEST_F(TensorMeaning, RowsAreNotSummedForward) {
  EXPECT_TRUE(has_finding(verify_meaning(lowered("h.0.proj")),
                          "forward h.0.add_ln_2 mb=0 takes i1 (h.0.projected) = activation "
                          "h.0.projected mb=0, which is a sum over tp"));
}

TEST_F(TensorMeaning, ColumnsAreNotSummedBackward) {
  EXPECT_TRUE(has_finding(verify_meaning(lowered("h.0.qkv")), "backward h.0.ln_1 mb=0 takes do0 (h.0.norm_1)"));
}

TEST_F(TensorMeaning, SumOfWhatIsWhole) {
  Program program = lowered("");
  sum_after(program, TSR_ACTION_FORWARD, "h.0.add_ln_2", TSR_SLOT(TSR_ROLE_OUTPUT, 0));
  EXPECT_TRUE(
      has_finding(verify_meaning(program), "which is the same on all ranks of tp: a sum over it means nothing"));
}

TEST_F(TensorMeaning, SegmentsSplitDifferently) {
  layout_.pop_back();  // mlp.c_proj.weight whole, its input split
  Program program = base(mesh_);
  EXPECT_TRUE(has_finding(verify_meaning(program), "which is split over tp"));
}

TEST_F(TensorMeaning, LossNeedsTheWholeVocabulary) {
  split("wte.weight", TSR_LAYOUT_SPLIT, 0);
  EXPECT_TRUE(has_finding(verify_meaning(base(mesh_)), "needs the whole of wte.weight, which is split over tp"));
}

TEST_F(OtherAxes, TiedGradientOverStages) {
  for (const Parameter& parameter : model_.parameters)
    if (parameter.name != "wte.weight") split(parameter.name);
  split("wte.weight", TSR_LAYOUT_REPLICATED).coordinates = {0, 1};
  const Mesh mesh({{"pp", 2, TSR_SPLITS_LAYERS}});
  Program program = base(mesh);
  finish_program(program);
  EXPECT_TRUE(is_clean(verify_meaning(program)));
  remove_stream(program, "comm.pp.completion");
  EXPECT_TRUE(
      has_finding(verify_meaning(program), "sum_squares wte.weight takes src0 = gradient wte, which is a sum over pp"));
}

// ---- storage split by hand: one parameter of 256 elements, one segment ----

/// fsdp in ten actions: gather, forward, backward, scatter, squares, their sum, clip, update.
class Storage : public ::testing::Test {
 protected:
  explicit Storage(std::vector<Axis> axes = {{"dp", 2}}) : mesh_(std::move(axes)) {}

  void layout(int axis, uint32_t kind, uint32_t roles = TSR_ALL_HOME_ROLES) {
    Split& split = p_.layout.emplace_back();
    split.parameter = kWeight;
    split.axis = axis;
    split.kind = kind;
    split.roles = roles;
  }
  Action& on(int axis, uint32_t kind, const std::vector<Use>& uses, uint32_t reduce = 0) {
    Action& action = add_action(p_, kind, p_.comm_stream(axis, "test"), uses);
    action.group = p_.group({axis, {}});
    action.reduce = reduce;
    return action;
  }
  void compute(uint32_t kind, const std::vector<Use>& uses) {
    Action& action = add_action(p_, kind, TSR_STREAM_COMPUTE, uses);
    action.segment = 1;
    action.micro_batch = 0;
  }
  void forward_and_backward(uint64_t weight, uint64_t gradient) {
    compute(TSR_ACTION_FORWARD, {read(weight, TSR_SLOT(TSR_ROLE_PARAMETER, 0)), read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)),
                                 write(y_, TSR_SLOT(TSR_ROLE_OUTPUT, 0))});
    compute(TSR_ACTION_BACKWARD,
            {read(weight, TSR_SLOT(TSR_ROLE_PARAMETER, 0)), read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)),
             read(y_, TSR_SLOT(TSR_ROLE_OUTPUT_GRADIENT, 0)), write(gradient, TSR_SLOT(TSR_ROLE_GRADIENT, 0))});
  }
  void make_home(uint64_t value, uint64_t gradient, uint64_t m, uint64_t num_elements) {
    Home home{p_.next_id++, "weight", 1, {{kWeight, 0, 0, num_elements, 0}}, num_elements, {}};
    home.roles[TSR_HOME_VALUE] = {value, 0, num_elements};
    home.roles[TSR_HOME_GRADIENT] = {gradient, 0, num_elements};
    home.roles[TSR_HOME_M] = {m, 0, num_elements};
    p_.homes = {home};
  }
  void step(const Use& value, const Use& gradient, const Use& m, bool sum_norm = true) {
    const auto scalar = [](uint32_t index) { return TSR_SLOT(TSR_ROLE_SCALAR, index); };
    add_action(p_, TSR_ACTION_ZERO, 0, {write(squares_)});
    add_action(p_, TSR_ACTION_SUM_SQUARES, 0, {gradient, add(squares_, scalar(TSR_SCALAR_ACCUMULATOR))}).home =
        p_.homes[0].id;
    if (sum_norm) on(TSR_WORLD_AXIS, TSR_ACTION_ALL_REDUCE, {add(squares_)}, TSR_REDUCE_SUM);
    add_action(p_, TSR_ACTION_CLIP, 0,
               {read(squares_, scalar(TSR_SCALAR_ACCUMULATOR)), write(clip_, scalar(TSR_SCALAR_CLIP)),
                add(count_, scalar(TSR_SCALAR_STEP))});
    add_action(p_, TSR_ACTION_OPTIMIZER, 0,
               {value, gradient, m, read(clip_, scalar(TSR_SCALAR_CLIP)), read(count_, scalar(TSR_SCALAR_STEP)),
                read(lr_, scalar(TSR_SCALAR_LR))})
        .home = p_.homes[0].id;
  }
  static Use state(uint64_t m) { return add(m, TSR_SLOT(TSR_ROLE_STATE, 0)); }

  void fsdp_step(int axis) {
    const uint64_t shard = persistent(p_, "shard", 128), m = persistent(p_, "m", 128, TSR_BUFFER_OPTIMIZER);
    const uint64_t gathered = transient(p_, "gathered", 256, TSR_BUFFER_GATHERED);
    const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT),
                   own = transient(p_, "own", 128, TSR_BUFFER_GRADIENT);
    make_home(shard, own, m, 128);
    on(axis, TSR_ACTION_ALL_GATHER, {read(shard), write(gathered)});
    forward_and_backward(gathered, whole);
    on(axis, TSR_ACTION_REDUCE_SCATTER, {read(whole), write(own)}, TSR_REDUCE_SUM);
    if (mesh_.axes().size() > 1) on(1 - axis, TSR_ACTION_ALL_REDUCE, {add(own)}, TSR_REDUCE_SUM);
    step(add(shard), read(own), state(m));
  }

  static constexpr int kWeight = 1;
  const Model model_ = toy_model(1);
  const Mesh mesh_;
  Program p_ = empty_program(model_, mesh_);
  const uint64_t x_ = persistent(p_, "x", 128, TSR_BUFFER_INPUT), y_ = transient(p_, "y", 128);
  const uint64_t squares_ = persistent(p_, "squares", 20, TSR_BUFFER_ACCUMULATOR, TSR_I64);
  const uint64_t clip_ = persistent(p_, "clip", 3, TSR_BUFFER_SCALAR, TSR_F64),
                 lr_ = persistent(p_, "lr", 1, TSR_BUFFER_SCALAR, TSR_F64);
  const uint64_t count_ = persistent(p_, "optimizer_step", 1, TSR_BUFFER_SCALAR, TSR_I64);
};

TEST_F(Storage, Fsdp) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  EXPECT_TRUE(is_clean(verify_meaning(p_)));
}

TEST_F(Storage, FsdpThatDeclaresNoLayout) {
  fsdp_step(0);
  EXPECT_TRUE(has_finding(verify_meaning(p_),
                          "all_gather shard takes src0 = home shard, which is the same on all ranks of dp: the "
                          "slices of all ranks do not make a whole"));
}

TEST_F(Storage, FsdpComputesWithItsShard) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  for (Action& action : p_.actions)
    for (Binding& b : action.bindings)
      if (b.slot == TSR_SLOT(TSR_ROLE_PARAMETER, 0))
        b = {p_.homes[0].roles[TSR_HOME_VALUE].buffer, 0, 128, b.slot, b.mode};
  EXPECT_TRUE(has_finding(verify_meaning(p_),
                          "takes p0 (h.0.fc.weight) = home shard, which is split over dp: the action needs the "
                          "whole parameter; is a collective missing?"));
}

TEST_F(Storage, FsdpTakesItsSliceWithoutTheSum) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  Action& scatter = nth(p_, TSR_ACTION_REDUCE_SCATTER);
  scatter.kind = TSR_ACTION_COPY;
  scatter.bindings[0].num_elements = 128;
  EXPECT_TRUE(has_finding(verify_meaning(p_), "takes src0 = gradient own, which is a sum over dp"));
}

TEST_F(Storage, GatherOfAddends) {
  const uint64_t value = persistent(p_, "value", 256), gradient = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
  forward_and_backward(value, gradient);
  on(0, TSR_ACTION_ALL_GATHER, {read(gradient).at(0, 128), write(transient(p_, "all", 256))});
  EXPECT_TRUE(
      has_finding(verify_meaning(p_),
                  "which is a sum over dp that nothing has taken yet: the slices of all ranks do not make a whole"));
}

TEST_F(Storage, Zero3) {
  layout(0, TSR_LAYOUT_SPLIT);
  const uint64_t value = persistent(p_, "value", 256), m = persistent(p_, "m", 256, TSR_BUFFER_OPTIMIZER);
  const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT),
                 sum = transient(p_, "sum", 256, TSR_BUFFER_GRADIENT);
  const uint64_t copy = transient(p_, "copy", 256, TSR_BUFFER_GATHERED);
  make_home(value, sum, m, 256);
  on(0, TSR_ACTION_BROADCAST, {read(value), write(copy)}).peer = 0;
  forward_and_backward(copy, whole);
  on(0, TSR_ACTION_REDUCE, {read(whole), write(sum)}, TSR_REDUCE_SUM).peer = 0;
  step(add(value), read(sum), state(m));
  EXPECT_TRUE(is_clean(verify_meaning(p_)));
  Program other = p_;  // the rank that owns nothing
  other.coordinates = {1};
  other.homes.clear();
  std::erase_if(other.actions, [](const Action& a) { return a.home != 0; });
  for (Action& action : other.actions)
    if (is_collective(action.kind) && action.bindings.size() == 2)
      action.bindings.erase(action.bindings.begin() + (action.kind == TSR_ACTION_REDUCE));
  EXPECT_TRUE(is_clean(verify_meaning(other)));
}

TEST_F(Storage, BroadcastOfAddends) {
  const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT), value = persistent(p_, "value", 256);
  forward_and_backward(value, whole);
  on(0, TSR_ACTION_BROADCAST, {add(whole)}).peer = 0;
  EXPECT_TRUE(has_finding(verify_meaning(p_), "one rank's addend is no value for all"));
}

/// Optimizer state split, parameters replicated: each rank updates its slice and all gather it.
class Zero1 : public Storage {
 protected:
  Zero1() {
    layout(0, TSR_LAYOUT_SPLIT, 1u << TSR_HOME_M | 1u << TSR_HOME_V);
    value_ = persistent(p_, "value", 256);
    const uint64_t m = persistent(p_, "m", 128, TSR_BUFFER_OPTIMIZER);
    const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT),
                   own = transient(p_, "own", 128, TSR_BUFFER_GRADIENT);
    make_home(value_, own, m, 128);
    forward_and_backward(value_, whole);
    on(0, TSR_ACTION_REDUCE_SCATTER, {read(whole), write(own)}, TSR_REDUCE_SUM);
    step(add(value_).at(0, 128), read(own), state(m));
    on(0, TSR_ACTION_ALL_GATHER, {add(value_)});
  }
  uint64_t value_ = 0;
};

TEST_F(Zero1, Clean) {
  EXPECT_TRUE(is_clean(verify_meaning(p_)));
}

TEST_F(Zero1, UpdatesAreNotGathered) {
  remove(p_, TSR_ACTION_ALL_GATHER);
  EXPECT_TRUE(has_finding(verify_meaning(p_),
                          "home weight: its value, home value[0:128], is the same on all ranks of dp before the "
                          "program, and after it split over dp"));
}

class Hybrid : public Storage {
 protected:
  Hybrid() : Storage({{"replicate", 2}, {"shard", 2}}) {
    layout(1, TSR_LAYOUT_SPLIT);
    fsdp_step(1);
  }
};

TEST_F(Hybrid, Clean) {
  EXPECT_TRUE(is_clean(verify_meaning(p_)));
}

TEST_F(Hybrid, ReplicasAreNotSummed) {
  remove(p_, TSR_ACTION_ALL_REDUCE, "comm.replicate.test");
  EXPECT_TRUE(has_finding(verify_meaning(p_), "which is a sum over replicate that nothing has taken yet"));
}

TEST_F(Hybrid, MaximumOnTheOtherAxis) {
  nth(p_, TSR_ACTION_REDUCE_SCATTER).reduce = TSR_REDUCE_MAX;
  EXPECT_TRUE(has_finding(verify_meaning(p_),
                          "which is a sum over replicate that nothing has taken yet: the minimum or maximum of "
                          "addends is none of their sum"));
}

/// Local SGD: every rank its own parameters, averaged now and then.
class LocalSgd : public Storage {
 protected:
  explicit LocalSgd(bool diverges = true) {
    if (diverges) layout(0, TSR_LAYOUT_DIVERGENT);
    value_ = persistent(p_, "value", 256);
    gradient_ = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
    m_ = persistent(p_, "m", 256, TSR_BUFFER_OPTIMIZER);
    make_home(value_, gradient_, m_, 256);
    forward_and_backward(value_, gradient_);
  }
  uint64_t value_ = 0, gradient_ = 0, m_ = 0;
};

TEST_F(LocalSgd, OwnStep) {
  step(add(value_), read(gradient_), state(m_), false);
  EXPECT_TRUE(is_clean(verify_meaning(p_)));
}

TEST_F(LocalSgd, Average) {
  step(add(value_), read(gradient_), state(m_), false);
  on(0, TSR_ACTION_ALL_REDUCE, {add(value_)}, TSR_REDUCE_AVG);
  EXPECT_TRUE(is_clean(verify_meaning(p_)));
}

TEST_F(LocalSgd, SumOfParameters) {
  on(0, TSR_ACTION_ALL_REDUCE, {add(value_)}, TSR_REDUCE_SUM);
  EXPECT_TRUE(has_finding(verify_meaning(p_),
                          "home value, which is different on each rank of dp: a sum over it means nothing"));
}

TEST_F(LocalSgd, NormOverDivergentGradients) {
  step(add(value_), read(gradient_), state(m_), true);
  EXPECT_TRUE(has_finding(verify_meaning(p_), "accumulator squares, which is different on each rank of dp"));
}

class EqualParameters : public LocalSgd {
 protected:
  EqualParameters() : LocalSgd(false) {}
};

TEST_F(EqualParameters, MomentsOfOneRankDrift) {
  on(0, TSR_ACTION_ALL_REDUCE, {add(gradient_)}, TSR_REDUCE_SUM);
  const uint64_t own = transient(p_, "own", 256, TSR_BUFFER_GRADIENT);
  add_action(p_, TSR_ACTION_ZERO, 0, {write(own)});
  compute(TSR_ACTION_FORWARD, {read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)), write(own, TSR_SLOT(TSR_ROLE_OUTPUT, 0))});
  step(add(value_), read(own), state(m_), false);
  EXPECT_TRUE(has_finding(verify_meaning(p_), "updates dst0 = home value, which is the same on all ranks of dp"));
}

// ---- calls and messages ----

Action& call(Program& p, int axis, const std::vector<Use>& uses) {
  Action& action = add_action(p, TSR_ACTION_CALL, 0, uses);
  action.strategy_axis = axis;
  return action;
}

TEST_F(Hybrid, CallOnItsOwnAxisMayTakeAddends) {
  const size_t scatter = nth_action(p_, TSR_ACTION_REDUCE_SCATTER);
  const Binding whole = p_.actions[scatter].bindings[0];
  call(p_, 1, {{whole.buffer, TSR_MODE_ADD, TSR_SLOT(TSR_ROLE_DESTINATION, 0)}});
  std::rotate(p_.actions.begin() + static_cast<ptrdiff_t>(scatter), p_.actions.end() - 1, p_.actions.end());
  const Findings findings = verify_meaning(p_);
  ASSERT_EQ(findings.size(), 1u);  // on axis replicate, which it is not for
  EXPECT_TRUE(has_finding(
      findings, "which is a sum over replicate that nothing has taken yet: a call on another axis needs the sum"));
}

TEST_F(EqualParameters, ResultsOfACallAreAsItsOperands) {
  call(p_, 0, {read(gradient_), add(value_)});
  EXPECT_TRUE(has_finding(verify_meaning(p_),
                          "home weight: its value, home value, is the same on all ranks of dp before the program, "
                          "and after it a sum over dp that nothing has taken yet"));
}

TEST_F(EqualParameters, AddendsAreNotSent) {
  on(0, TSR_ACTION_SEND, {read(gradient_)}).peer = 1;
  EXPECT_TRUE(has_finding(verify_meaning(p_),
                          "send gradient takes src0 = gradient gradient, which is a sum over dp that nothing has "
                          "taken yet: the receiver would take an addend for the sum"));
}

TEST_F(EqualParameters, OffloadCarriesMeaning) {
  const uint64_t host = transient(p_, "host", 256, TSR_BUFFER_STAGING, TSR_F32, TSR_MEMORY_HOST);
  const uint64_t back = transient(p_, "back", 256, TSR_BUFFER_STAGING);
  add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COPY_OUT, {read(gradient_), write(host)});
  add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COPY_IN, {read(host), write(back)});
  step(add(value_), read(back), state(m_));
  EXPECT_TRUE(
      has_finding(verify_meaning(p_), "src0 = staging back, which is a sum over dp that nothing has taken yet"));
}

}  // namespace
}  // namespace tessera::testing
