// Frozen parameters: which ones a pattern names, and what their step no longer holds and does.
#include "model/freeze.h"

#include <gtest/gtest.h>

#include <set>

#include "passes/dce.h"
#include "passes/recompute.h"
#include "program/program_text.h"
#include "support/expect_diagnostic.h"
#include "support/expect_error.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

class FreezeTest : public ::testing::Test {
 protected:
  void freeze(std::vector<std::string> patterns) { freeze_parameters(model_, patterns); }
  std::set<std::string> frozen() const {
    std::set<std::string> names;
    for (const Parameter& parameter : model_.parameters)
      if (!parameter.trainable) names.insert(parameter.name);
    return names;
  }

  Program base(const Recompute& recompute = {}) const {
    StepConfig step_config;
    step_config.recompute = recompute;
    const DescribeOp describe = [](const tsr_op& op) { return cpu::describe(op); };
    Program program = build_program(model_, mesh_, mesh_.coordinates(0), step_config, {}, TSR_PURPOSE_STEP, describe);
    eliminate_dead_code(program);
    recompute_forward(program, describe);
    return program;
  }
  /// The backward of a segment; null when it is left out.
  const Action* backward(const Program& program, const std::string& segment) const {
    for (const Action& action : program.actions)
      if (action.kind == TSR_ACTION_BACKWARD && action.segment == model_.segment(segment)) return &action;
    return nullptr;
  }

  Model model_ = make_gpt2({.num_layers = 3, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 32},
                           {.batch = 2, .seq = 8, .loss_scale = 1.0 / 16});
  Mesh mesh_{{{"dp", 1, TSR_SPLITS_BATCH}}};
};

TEST_F(FreezeTest, PatternsAreThoseOfFileNames) {
  freeze({"wte*", "h.[0-1].attn.c_attn.weight", "h.?.ln_1.bias", "ln_f.*"});
  EXPECT_EQ(frozen(),
            (std::set<std::string>{"wte.weight", "h.0.attn.c_attn.weight", "h.1.attn.c_attn.weight", "h.0.ln_1.bias",
                                   "h.1.ln_1.bias", "h.2.ln_1.bias", "ln_f.weight", "ln_f.bias"}));
}

TEST_F(FreezeTest, AStarMatchesDots) {
  freeze({"*.bias"});
  EXPECT_EQ(frozen().size(), 3 * 6 + 1u);
}

TEST_F(FreezeTest, CountsWhatIsTrained) {
  const uint64_t all = model_.num_parameter_elements();
  EXPECT_EQ(model_.num_trainable_elements(), all);
  freeze({"wte.weight", "wte*"});
  EXPECT_EQ(model_.num_trainable_elements(), all - 48 * 16);
}

TEST_F(FreezeTest, FrozenOnesStandBehindTrainedOnesInTheirUnit) {
  freeze({"h.1.ln_1.*"});
  const Parameter& last = model_.parameters[model_.parameter("h.1.ln_1.bias")];
  for (int p : model_.units[last.unit].parameters)
    EXPECT_LE(model_.parameters[p].unit_offset, last.unit_offset);
}

TEST_F(FreezeTest, APatternThatMatchesNothingIsAnError) {
  expect_error(
      [&] {
        freeze({"*.bias", "transformer.h.0.*"});
      },
      {"'transformer.h.0.*' matches no parameter", "wte.weight", "h.0.ln_1.weight", "ln_f.bias"});
  expect_error([&] { freeze({"h.[0"}); }, {"'h.[0'"});
}

TEST_F(FreezeTest, SomethingMustBeTrained) {
  expect_error([&] { freeze({"*"}); }, {"no parameter is left"});
}

TEST_F(FreezeTest, WithoutFrozenParametersNothingIsDeadWork) {
  const DescribeOp describe = [](const tsr_op& op) { return cpu::describe(op); };
  for (const uint32_t purpose : {TSR_PURPOSE_STEP, TSR_PURPOSE_EVAL, TSR_PURPOSE_INIT}) {
    const Program untouched = build_program(model_, mesh_, {0}, {}, {}, purpose, describe);
    Program program = untouched;
    eliminate_dead_code(program);
    EXPECT_EQ(print_program(program), print_program(untouched));
  }
}

TEST(DeadCode, IsLeftOutOfTheFirstActionToo) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 1}});
  Program p = empty_program(model, mesh);
  const uint64_t saved = transient(p, "saved", 8), x = transient(p, "x", 8);
  add_action(p, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE,
             {write(saved, TSR_SLOT(TSR_ROLE_SAVED, 0)), write(x, TSR_SLOT(TSR_ROLE_OUTPUT, 0))})
      .segment = 1;
  eliminate_dead_code(p);
  ASSERT_EQ(p.actions[0].bindings.size(), 1u);
  EXPECT_EQ(p.actions[0].bindings[0].buffer, x);
}

TEST_F(FreezeTest, BackwardsEndWhereNothingBelowIsTrained) {
  freeze({"wte*", "wpe*", "h.[0-1].*"});
  const Program program = base();
  for (const char* segment : {"wte", "wpe", "h.0.add", "h.0.ln_1", "h.1.fc_proj", "h.1.add"})
    EXPECT_EQ(backward(program, segment), nullptr) << segment;
  const uint32_t input_gradient = TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0);
  const Action &norm = *backward(program, "h.2.ln_1"), &residual = *backward(program, "h.2.add_ln_2");
  EXPECT_EQ(norm.find(input_gradient), nullptr);
  EXPECT_NE(norm.find(TSR_SLOT(TSR_ROLE_GRADIENT, 0)), nullptr);
  EXPECT_EQ(residual.find(input_gradient), nullptr);
  EXPECT_NE(residual.find(TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 1)), nullptr);
  for (const Action& action : program.actions) {
    if (action.kind != TSR_ACTION_FORWARD || model_.segments[action.segment].block != 0) continue;
    EXPECT_EQ(action.find(TSR_SLOT(TSR_ROLE_SAVED, 0)), nullptr) << model_.segments[action.segment].name;
  }
}

TEST_F(FreezeTest, ABackwardWithNothingButAnInputsGradientStays) {
  freeze({"h.2.*"});
  const Program program = base();
  for (const char* segment : {"h.2.qkv", "h.2.attention", "h.2.fc_proj"}) {
    const Action* action = backward(program, segment);
    ASSERT_NE(action, nullptr) << segment;
    EXPECT_EQ(action->find(TSR_SLOT(TSR_ROLE_GRADIENT, 0)), nullptr) << segment;
    EXPECT_NE(action->find(TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0)), nullptr) << segment;
  }
}

TEST_F(FreezeTest, FrozenParametersHaveNeitherGradientNorState) {
  freeze({"h.2.*", "wpe*"});
  const Program program = base();
  for (const Home& home : program.homes) {
    const bool trained = model_.parameters[static_cast<size_t>(home.pieces[0].parameter)].trainable;
    EXPECT_NE(home.roles[TSR_HOME_VALUE].buffer, 0u) << home.name;
    for (const uint32_t role : {TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V})
      EXPECT_EQ(home.roles[role].buffer != 0, trained) << home.name;
  }
  for (const Action& action : program.actions) {
    if (action.kind != TSR_ACTION_OPTIMIZER && action.kind != TSR_ACTION_SUM_SQUARES) continue;
    EXPECT_FALSE(frozen().contains(program.home(action.home).name));
  }
}

TEST_F(FreezeTest, ProgramsAreProvedLikeOthers) {
  for (const std::vector<std::string>& patterns : std::vector<std::vector<std::string>>{
           {"wte*"}, {"*.bias"}, {"h.1.*"}, {"wte*", "wpe*", "h.[0-1].*"}, {"wte*", "wpe*", "h.*"}}) {
    for (const Recompute& recompute : {Recompute{}, Recompute{Recompute::What::blocks, 1}}) {
      for (Parameter& parameter : model_.parameters)
        parameter.trainable = true;
      freeze(patterns);
      Program program = base(recompute);
      finalize_program(program);
      zero_pads(program);
      const MemoryPlan memory = plan(program);
      EXPECT_TRUE(is_clean(verify_rank(program, &memory))) << patterns[0];
    }
  }
}

}  // namespace
}  // namespace tessera::testing
