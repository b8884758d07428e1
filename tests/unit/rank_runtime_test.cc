// What a rank's memory is filled with and what it gives back, for parameters longer than what is read at once and state
// longer than what is written at once; and the value of an evaluation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/rank_runtime.h"
#include "model/freeze.h"
#include "model/gpt2/gpt2.h"
#include "model/initial_values.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/paths.h"
#include "support/plugin_loader.h"
#include "support/rank_by_hand.h"
#include "support/read_parameter.h"
#include "support/temp_folder.h"
#include "tessera/error.hpp"

namespace tessera::testing {
using namespace host;
namespace {

/// Its embedding has 1.3 Mi elements: more than the 1 Mi that are read at once.
Model model_of(tsr_dtype dtype) {
  return make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 16, .vocab = 85'197, .positions = 8, .ffn = 64},
                   {.batch = 1, .seq = 8, .loss_scale = 1.0 / 8, .dtype = dtype});
}

/// Element i of every parameter, exact in every dtype; no power of two is a period.
float value_at(uint64_t i) {
  return static_cast<float>(i % 251);
}

/// Those values, but for one element of wte.weight.
class Numbered final : public ParameterSource {
 public:
  Numbered() = default;
  Numbered(uint64_t index, float value) : index_(index), value_(value) {}

  void read(std::string_view parameter, uint64_t offset, std::span<float> out) const override {
    for (uint64_t i = 0; i < out.size(); ++i)
      out[i] = parameter == "wte.weight" && offset + i == index_ ? value_ : value_at(offset + i);
  }

 private:
  uint64_t index_ = UINT64_MAX;
  float value_ = 0;
};

/// On the CPU, and on a device whose memory the host cannot touch.
class RankRuntimeTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<RankRuntime> make(const ParameterSource& values, bool evaluates = false) {
    StepConfig step_config;
    step_config.dtype = model_.segments[0].op.dtype;
    CompileInput input{model_, mesh_, step_config, {}, [this](const tsr_op& op) { return describe_op(device_, op); },
                       {}};
    input.evaluates = evaluates;
    auto runtime = std::make_unique<RankRuntime>(setup(), compile_rank(input, {0}));
    runtime->initialize(values);
    return runtime;
  }
  RankSetup setup() const {
    RankSetup setup;
    setup.device.api = &device_;
    setup.device.host = &host_;
    return setup;
  }

  void expect_values(RankRuntime& runtime) const {
    for (size_t p = 0; p < model_.parameters.size(); ++p) {
      const Parameter& parameter = model_.parameters[p];
      std::vector<float> read(parameter.num_elements, NAN);
      read_parameter(runtime, static_cast<int>(p), read);
      for (uint64_t i = 0; i < read.size(); ++i)
        ASSERT_EQ(read[i], value_at(i)) << parameter.name << " " << i;
    }
  }

  MemoryKv store_;
  tsr_host host_ = store_.host();
  const tsr_device_interface& device_ = load_plugin<tsr_device_interface>(GetParam(), TSR_DEVICE_INTERFACE);
  Mesh mesh_{{{"dp", 1, TSR_SPLITS_BATCH}}};
  Model model_ = model_of(TSR_F32);
};

TEST_P(RankRuntimeTest, EveryElementOfALongParameterIsThatOfItsSource) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16}) {
    model_ = model_of(dtype);
    expect_values(*make(Numbered()));
  }
}

// Kept in 16 bits alone.
TEST_P(RankRuntimeTest, SoIsThatOfALongParameterThatIsFrozen) {
  for (const tsr_dtype dtype : {TSR_BF16, TSR_F16}) {
    model_ = model_of(dtype);
    freeze_parameters(model_, std::vector<std::string>{"wte.weight"});
    expect_values(*make(Numbered()));
  }
}

TEST_P(RankRuntimeTest, TheWorstElementIsFoundWhereverItIs) {
  for (const uint64_t index : {uint64_t{7}, uint64_t{1} << 20, uint64_t{1'300'000}})
    for (const float value : {-1000.0f, NAN}) {
      const auto worst = make(Numbered(index, value))->worst_parameter_element();
      ASSERT_TRUE(worst);
      EXPECT_EQ(model_.parameters[static_cast<size_t>(worst->parameter)].name, "wte.weight");
      EXPECT_EQ(worst->index, index);
      EXPECT_EQ(std::isnan(worst->value), std::isnan(value));
    }
}

TEST_P(RankRuntimeTest, AnEvaluationHasTheLossOfTheStepOnTheSameTokens) {
  const auto runtime = make(InitialValues(3, model_.parameters), true);
  const MicroBatch batch{std::vector{0, 1, 2, 3, 4, 5, 6, 85'196}, std::vector{1, 2, 3, 4, 5, 6, 85'196, 7}};
  double before = INFINITY;
  for (uint64_t step = 0; step < 3; ++step) {
    const double loss = runtime->run_eval({&batch, 1}).loss_sum();
    EXPECT_EQ(runtime->run_eval({&batch, 1}).loss_sum(), loss) << "an evaluation changed something";
    EXPECT_EQ(runtime->run_step(step, 1e-3, 1, {&batch, 1}).loss_sum, loss);
    EXPECT_LT(loss, before);
    if (step == 0) {
      EXPECT_NEAR(loss, 8 * std::log(85'197.0), 0.5);
    }
    before = loss;
  }
}

// Strategies may write a program for each of several steps, and some of these are often equal.
TEST_P(RankRuntimeTest, VariantsOfTheStepThatAreEqualAreOneExecutable) {
  CompileInput input{model_, mesh_, {}, {}, [this](const tsr_op& op) { return describe_op(device_, op); }, {}};
  RankPrograms programs = compile_rank(input, {0});
  const auto add_variant = [&]() -> Program& {
    programs.steps.push_back(programs.steps[0]);
    programs.memory.push_back(programs.memory[1]);
    programs.steps.back().variant = static_cast<uint32_t>(programs.steps.size() - 1);
    return programs.steps.back();
  };
  add_variant();
  Program& other = add_variant();
  std::ranges::find(other.actions, uint32_t{TSR_ACTION_OPTIMIZER}, &Action::kind)->scale = 0.5;
  add_variant();
  RankSetup without_graphs = setup();
  without_graphs.graphs.is_on = false;
  RankRuntime runtime(without_graphs, std::move(programs));
  EXPECT_EQ(&runtime.step_executable(1), &runtime.step_executable(0));
  EXPECT_NE(&runtime.step_executable(2), &runtime.step_executable(0));
  EXPECT_EQ(&runtime.step_executable(3), &runtime.step_executable(0));
  EXPECT_EQ(&runtime.step_executable(4), &runtime.step_executable(0)) << "there are four";
}

TEST_P(RankRuntimeTest, AnEvaluationThatNobodyAskedForHasNoProgram) {
  const auto runtime = make(Numbered());
  EXPECT_EQ(runtime->programs().all().size(), 2u);  // init and step
  EXPECT_FALSE(runtime->programs().eval);
  const std::vector<int32_t> tokens(8, 1);
  const MicroBatch batch{tokens, tokens};
  expect_error([&] { runtime->run_eval({&batch, 1}); }, {"compiled without an eval program"});
}

TEST_P(RankRuntimeTest, InputsAreThoseOfTheModelWhateverTheirNamesAndDtypes) {
  const InitialValues values(3, model_.parameters);
  const std::vector<int32_t> tokens(8, 1), targets(8, 2);
  const MicroBatch batch{tokens, targets};
  const double loss = make(values)->run_step(0, 1e-3, 1, {&batch, 1}).loss_sum;

  ASSERT_EQ(model_.inputs(), (std::vector{0, 1}));
  model_.values[0].name = "ids";
  model_.values[1].name = "labels";
  model_.values.push_back({"features", {}, TSR_VALUE_INPUT, TSR_F32, -1, 3});
  ASSERT_EQ(model_.inputs().size(), 3u);
  const auto runtime = make(values);
  const MicroBatch three{tokens, targets, std::vector<float>(3, 0.5f)};
  EXPECT_EQ(runtime->run_step(0, 1e-3, 1, {&three, 1}).loss_sum, loss);
}

TEST_P(RankRuntimeTest, InputsThatAreNotTheModelsAreRefused) {
  const auto runtime = make(Numbered());
  const std::vector<int32_t> tokens(8, 1);
  const auto refuse = [&](const MicroBatch& batch, const std::vector<std::string>& words) {
    expect_error([&] { runtime->run_step(0, 1e-3, 1, {&batch, 1}); }, words);
  };
  refuse({tokens}, {"a micro-batch has 2 inputs and was given 1"});
  refuse({tokens, tokens, tokens}, {"has 2 inputs and was given 3"});
  refuse({tokens, std::vector<int32_t>(7)}, {"'targets mb=0' takes i32[8] and was given i32[7]"});
  refuse({std::vector<float>(8), tokens}, {"'tokens mb=0' takes i32[8] and was given f32[8]"});
  const std::vector<MicroBatch> two(2, {tokens, tokens});
  expect_error([&] { runtime->run_step(0, 1e-3, 1, two); }, {"takes 1 micro-batches and was given 2"});
}

TEST_P(RankRuntimeTest, FloatsAreRoundedToTheDtypeOfTheirInput) {
  model_.values.push_back({"features", {}, TSR_VALUE_INPUT, TSR_BF16, -1, 3});
  const auto runtime = make(InitialValues(3, model_.parameters));
  const std::vector<int32_t> tokens(8, 1);
  const MicroBatch batch{tokens, tokens, std::vector<float>{1, -2.5f, 1 + 0x1p-12f}};
  runtime->run_step(0, 1e-3, 1, {&batch, 1});
  const Program& step = runtime->programs().first();
  const auto features = std::ranges::find(step.inputs, 2, &InputBuffer::input);
  ASSERT_NE(features, step.inputs.end());
  std::vector<float> values(3);
  runtime->read_values(step.buffer(features->buffer), 0, values);
  EXPECT_EQ(values, (std::vector{1.0f, -2.5f, 1.0f}));
}

INSTANTIATE_TEST_SUITE_P(Devices, RankRuntimeTest,
                         ::testing::Values("cpu-device", binary_dir("tests/devices/other-device.so")),
                         [](const auto& test) { return test.index ? "other" : "cpu"; });

class StateByHand : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const Model toy_ = toy_model();
  const Mesh mesh_{{{"dp", 1}}};
  Program step_ = empty_program(toy_, mesh_);
  RankByHand rank_;
};

/// Their length is not a multiple of what is written at once.
TEST_F(StateByHand, WhatFollowsABufferThatBecomesZeroInAFileStays) {
  constexpr uint64_t kLong = (5 << 20) / sizeof(float);
  const uint64_t first = persistent(step_, "first", kLong, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_FILE),
                 second = persistent(step_, "second", kLong, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_FILE);
  const auto runtime = rank_.make({step_}, folder_.path());
  const Program& program = runtime->programs().first();
  const std::vector<float> ones(kLong, 1.0f);
  std::vector<float> values(kLong);
  for (const auto& [zeroed, kept] : {std::pair(first, second), std::pair(second, first)}) {
    for (const uint64_t buffer : {first, second})
      runtime->write_values(program.buffer(buffer), 0, ones);
    const StatePlace place{kept, 0, kLong};
    runtime->zero_state({&place, 1});
    runtime->read_values(program.buffer(zeroed), 0, values);
    EXPECT_EQ(std::ranges::count(values, 0.0f), std::ssize(values));
    runtime->read_values(program.buffer(kept), 0, values);
    EXPECT_EQ(std::ranges::count(values, 1.0f), std::ssize(values));
  }
}

TEST_F(StateByHand, TheHostWritesFloatsOfItsMemoryItself) {
  const uint64_t floats = persistent(step_, "floats", 64, TSR_BUFFER_PLUGIN),
                 halves = persistent(step_, "halves", 64, TSR_BUFFER_PLUGIN, TSR_BF16),
                 in_file = persistent(step_, "file", 64, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_FILE);
  const auto runtime = rank_.make({step_}, folder_.path());
  EXPECT_TRUE(runtime->values_in_memory({halves, 0, 64}).empty());
  EXPECT_TRUE(runtime->values_in_memory({in_file, 0, 64}).empty());
  const std::span<float> values = runtime->values_in_memory({floats, 16, 8});
  ASSERT_EQ(values.size(), 8u);
  values[3] = 7;
  std::vector<float> read(1);
  runtime->read_values(runtime->programs().first().buffer(floats), 19, read);
  EXPECT_EQ(read[0], 7);
}

}  // namespace
}  // namespace tessera::testing
