// The programs of a classifier: its count of correct predictions is kept and summed as its loss is.
#include <gtest/gtest.h>

#include <algorithm>

#include "cpu-device/device.h"
#include "model/mlp/mlp.h"
#include "passes/build_program.h"
#include "passes/finalize.h"
#include "passes/zero_pads.h"
#include "verify/verify.h"

namespace tessera::testing {
using namespace host;
namespace {

/// Two ranks, two micro-batches.
class MlpProgram : public ::testing::Test {
 protected:
  MlpProgram() { step_config_.num_micro_batches = 2; }

  Program finished(uint32_t purpose) const {
    Program program = build_program(model_, mesh_, mesh_.coordinates(1), step_config_, {}, purpose,
                                    [](const tsr_op& op) { return cpu::describe(op); });
    finalize_program(program);
    zero_pads(program);
    return program;
  }

  const Model model_ = make_mlp({{6, 5, 3}}, {.batch = 2, .seq = 0, .loss_scale = 1.0 / 8});
  const Mesh mesh_{{{"dp", 2, TSR_SPLITS_BATCH}}};
  StepConfig step_config_;
};

uint64_t correct(const Program& program) {
  return find_buffer(program, TSR_BUFFER_ACCUMULATOR, kCorrectCount);
}

bool is_sum_of_correct(const Program& program, const Action& action) {
  return action.kind == TSR_ACTION_ALL_REDUCE && action.bindings[0].buffer == correct(program);
}

TEST_F(MlpProgram, CountsInEveryMicroBatchAndSumsOnce) {
  for (const uint32_t purpose : {TSR_PURPOSE_STEP, TSR_PURPOSE_EVAL}) {
    const Program program = finished(purpose);
    ASSERT_NE(correct(program), 0u);
    const auto binds = [&](const Action& action, uint32_t slot) {
      const Binding* binding = action.find(slot);
      return binding && binding->buffer == correct(program);
    };
    const auto count = [&](const auto& is) { return std::ranges::count_if(program.actions, is); };
    EXPECT_EQ(count([&](const Action& a) { return binds(a, TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT)); }), 2);
    EXPECT_EQ(count([&](const Action& a) { return is_sum_of_correct(program, a); }), 1);
    const auto& zero = program.actions.front();
    ASSERT_EQ(zero.kind, static_cast<uint32_t>(TSR_ACTION_ZERO));
    EXPECT_EQ(zero.bindings.back().buffer, correct(program));
  }
}

TEST_F(MlpProgram, ACountThatIsNotSummedIsFound) {
  Program program = finished(TSR_PURPOSE_EVAL);
  EXPECT_TRUE(verify_placement(program).empty());
  std::erase_if(program.actions, [&](const Action& action) { return is_sum_of_correct(program, action); });
  const Diagnostics diagnostics = verify_placement(program);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_NE(diagnostics[0].find("a count of correct predictions"), std::string::npos) << diagnostics[0];
}

TEST_F(MlpProgram, WhatTheDataFillsHasNoGradient) {
  const Program program = finished(TSR_PURPOSE_STEP);
  for (const Buffer& buffer : program.buffers)
    EXPECT_FALSE(buffer.name.starts_with("d features")) << buffer.name;
  for (const Action& action : program.actions)
    if (action.kind == TSR_ACTION_BACKWARD && action.segment == 0) {
      EXPECT_EQ(action.find(TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0)), nullptr);
    }
}

}  // namespace
}  // namespace tessera::testing
