// The interpreter with a strategy of our own in the program: calls run in the order of the list, failures end the step,
// and the debug mode sees what should not happen.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <tuple>

#include "exec/command_builder.h"
#include "exec/rank_runtime.h"
#include "model/gpt2/gpt2.h"
#include "model/initial_values.h"
#include "passes/dependencies.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/paths.h"
#include "support/patience.h"
#include "support/plugin_loader.h"
#include "support/program_builder.h"
#include "tessera/strategy.hpp"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kElements = 61;  // of the buffer that the call is given; its guard follows at once

/// Inserts one call, after the loss, that writes a buffer of its own.
class Caller final : public Strategy {
 public:
  static constexpr std::string_view kName = "caller";
  Caller(std::string_view, std::span<const tsr_option_value>) {}
  Caller(std::function<void(std::span<const tsr_tensor_view>)> body, bool persists)
      : body_(std::move(body)), persists_(persists) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    if (view.raw.purpose != TSR_PURPOSE_STEP) return;
    const uint64_t buffer = edit.add_buffer("mine", TSR_BUFFER_PLUGIN, TSR_F32, kElements, persists_);
    tsr_action action = make_action(TSR_ACTION_CALL, TSR_STREAM_COMPUTE);
    action.strategy = view.raw.strategy;
    action.tag = 7;
    action.home = view.homes()[0].id;
    EXPECT_EQ(view.raw.optimizer->kind, TSR_OP_ADAMW);
    EXPECT_EQ(view.raw.optimizer->attributes[TSR_ATTR_BETA2], 0.75);
    const tsr_binding whole{buffer, 0, kElements, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE};
    for (const tsr_action& a : view.actions())
      if (a.kind == TSR_ACTION_LOSS) edit.insert(a.id, TSR_AFTER, action, {&whole, 1});
  }
  void call_action(const tsr_call& call) const override {
    EXPECT_EQ(call.tag, 7u);
    ASSERT_EQ(call.num_operands, 1u);
    EXPECT_EQ(call.operands[0].shape[0], static_cast<int64_t>(kElements));
    EXPECT_EQ(std::tie(call.coordinate, call.num_ranks, call.num_threads), std::tuple(0, 1, 3u));
    expect_update_of_the_embedding(*call.optimizer);
    body_(operands(call));
  }

 private:
  /// The numbers of the run, and those of the home that the action names.
  static void expect_update_of_the_embedding(const tsr_op& update) {
    EXPECT_EQ(update.kind, TSR_OP_ADAMW);
    EXPECT_EQ(update.attributes[TSR_ATTR_BETA1], 0.5);
    EXPECT_EQ(update.attributes[TSR_ATTR_BETA2], 0.75);
    EXPECT_EQ(update.attributes[TSR_ATTR_EPSILON], 0.125);
    ASSERT_EQ(update.num_ranges, 1u);
    EXPECT_EQ(update.ranges[0].num_elements, 32u * 16);
    EXPECT_EQ(update.ranges[0].weight_decay, 0.25);
    EXPECT_EQ(update.ranges[0].lr_scale, 1.0);
  }

  std::function<void(std::span<const tsr_tensor_view>)> body_;
  bool persists_ = false;
};
using Table = StrategyTable<Caller, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

/// On the CPU, and on a device whose memory the host cannot touch.
class ExecutableTest : public ::testing::TestWithParam<std::string> {
 protected:
  /// The last of some steps of a tiny model in which the call runs `body`.
  StepResult step(std::function<void(std::span<const tsr_tensor_view>)> body, bool check_memory = false,
                  uint64_t num_steps = 1) {
    Caller caller(std::move(body), persists_);
    Strategy& strategy = caller;
    const StrategyOnAxis on_axis{"caller", 0, &interface_, reinterpret_cast<tsr_strategy*>(&strategy)};
    const uint64_t guard_bytes = check_memory ? kBufferAlignment : 0;
    StepConfig step_config;
    step_config.beta1 = 0.5, step_config.beta2 = 0.75, step_config.epsilon = 0.125, step_config.weight_decay = 0.25;
    const CompileInput input{model_,
                             mesh_,
                             step_config,
                             {&on_axis, 1},
                             [this](const tsr_op& op) { return describe_op(device_, op); },
                             {},
                             guard_bytes,
                             {.calls = GetParam() != "cpu-device"}};
    RankSetup setup;
    setup.device.api = &device_;
    setup.device.host = &host_;
    setup.device.num_threads = 3;
    setup.strategies = {&on_axis, 1};
    setup.debug = {check_memory, guard_bytes, {}};
    setup.cancelled = [this] {
      ++num_questions_;
      return cancelled_.load();
    };
    RankRuntime runtime(setup, compile_rank(input, {0}));
    const auto& actions = runtime.programs().steps[0].actions;
    const auto is_call = [](const Action& action) { return action.kind == TSR_ACTION_CALL; };
    first_call_ = static_cast<size_t>(std::ranges::find_if(actions, is_call) - actions.begin());
    runtime.initialize(InitialValues(3, model_.parameters));
    const MicroBatch batch{std::vector<int32_t>(8, 1), std::vector<int32_t>(8, 2)};
    StepResult last;
    for (uint64_t i = 0; i < num_steps; ++i)
      last = runtime.run_step(i, 1e-3, 1, {&batch, 1});
    return last;
  }

  tsr_strategy_interface interface_ = Table::kInterface;
  MemoryKv store_;
  tsr_host host_ = store_.host();
  const tsr_device_interface& device_ = load_plugin<tsr_device_interface>(GetParam(), TSR_DEVICE_INTERFACE);
  Mesh mesh_{{{"dp", 1, TSR_SPLITS_BATCH}}};
  Model model_ = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 16, .vocab = 32, .positions = 8, .ffn = 64},
                           {.batch = 1, .seq = 8, .loss_scale = 1.0 / 8});
  std::atomic<bool> cancelled_{false};
  std::atomic<int> num_questions_{0};  ///< whether the run is cancelled
  bool persists_ = false;              ///< the buffer of the call
  size_t first_call_ = 0;              // of the last step's program
};

TEST_P(ExecutableTest, ARankOutsideAGroupGetsNoCommunicatorOfIt) {
  const Mesh mesh({{"dp", 3}});
  Program program;
  program.mesh = &mesh;
  program.coordinates = {2};
  Action barrier;
  barrier.kind = TSR_ACTION_BARRIER;
  barrier.stream = program.comm_stream(0, "test");
  barrier.group = program.group({0, {0, 1}});
  program.actions.push_back(barrier);
  const Program* programs[] = {&program};
  const Device device({.api = &device_, .host = &host_});
  const tsr_communicator_interface unused{};
  CommunicatorSetup setup;
  setup.api = &unused;
  expect_error([&] { Communicators(setup, device, programs); }, {"rank 2 is outside group dp {0,1}", "comm.dp.test"});
}

TEST_P(ExecutableTest, CollectivesOfInitAloneWaitForRanksToStart) {
  const Device device({.api = &device_, .host = &host_});
  CommunicatorSetup setup;
  setup.start_timeout_ms = 300;
  setup.timeout_ms = 100;
  const Communicators communicators(setup, device, {});
  const auto timeout_of = [&](uint32_t purpose) {
    Program program;
    program.purpose = purpose;
    return communicators.timeout_ms(program);
  };
  EXPECT_EQ(timeout_of(TSR_PURPOSE_INIT), 300);
  EXPECT_EQ(timeout_of(TSR_PURPOSE_STEP), 100);
  EXPECT_EQ(timeout_of(TSR_PURPOSE_EVAL), 100);
}

/// They are built, not run: none of this memory is there.
TEST_P(ExecutableTest, CopiesAndTransfersMayBeginAndEndBeyond4GiB) {
  constexpr uint64_t kBytes = uint64_t{5} << 30, kFloats = kBytes / sizeof(float);
  Program program = empty_program(model_, mesh_);
  const uint64_t file = persistent(program, "file", 2 * kFloats, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_FILE),
                 host = persistent(program, "host", kFloats, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_HOST),
                 mine = persistent(program, "mine", kFloats, TSR_BUFFER_PLUGIN);
  add_action(program, TSR_ACTION_COPY, program.host_stream("file_in"), {read(file).at(kFloats, kFloats), write(host)});
  add_action(program, TSR_ACTION_COPY, TSR_STREAM_COPY_IN, {read(host), write(mine)});
  const MemoryPlan memory{{{file, kBytes}, {host, 0}, {mine, 0}}, {}};
  const Device device({.api = &device_, .host = &host_});
  Communicators none({}, device, {});
  std::map<uint32_t, Arena> arenas;
  for (const uint32_t kind : {TSR_MEMORY_DEVICE, TSR_MEMORY_HOST})
    arenas.emplace(kind, Arena(device, kind, 0));
  ExecutionContext context({device, device, device}, none, {}, arenas, nullptr, {}, {});
  std::atomic<size_t> unused{0};
  const Commands commands = build_commands(program, memory, context, unused);
  EXPECT_EQ(commands.list.at(0)->transfer.offset, 2 * kBytes);
  EXPECT_EQ(commands.list.at(0)->transfer.memory.size(), kBytes);
  EXPECT_EQ(commands.list.at(1)->num_bytes, kBytes);
}

/// Neither half waits for the other, as where the first one is received.
TEST_P(ExecutableTest, TheMemoryCheckFillsEachRangeOnTheStreamOfItsFirstWriter) {
  constexpr uint64_t kHalf = kBufferAlignment / sizeof(float);
  const auto check = [&](const Use& last_read, size_t end_is_looked_at_by) {
    Program program = empty_program(model_, mesh_);
    const uint64_t x = transient(program, "x", 2 * kHalf), y = transient(program, "y", 2 * kHalf);
    add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COPY_OUT, {write(x).at(0, kHalf)});
    add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x).at(kHalf, kHalf)});
    add_action(program, TSR_ACTION_COPY, TSR_STREAM_COMPUTE,
               {read(x).at(last_read.offset, last_read.num_elements), write(y).at(0, last_read.num_elements)});
    derive_dependencies(program);
    const MemoryPlan memory{{{x, 0}, {y, 4 * kBufferAlignment}}, {}};
    const Device device({.api = &device_, .host = &host_});
    Communicators none({}, device, {});
    std::map<uint32_t, Arena> arenas;
    arenas.emplace(TSR_MEMORY_DEVICE, Arena(device, TSR_MEMORY_DEVICE, 8 * kBufferAlignment));
    ExecutionContext context({device, device, device}, none, {}, arenas, nullptr, {true, kBufferAlignment, {}}, {});
    std::atomic<size_t> unused{0};
    const Commands commands = build_commands(program, memory, context, unused);
    std::byte* const begin = arenas.at(TSR_MEMORY_DEVICE).at(0);
    std::vector<std::vector<std::pair<int64_t, uint64_t>>> filled(3);  // with NaN: offset in x, bytes
    for (size_t i = 0; i < 3; ++i) {
      for (const Fill& fill : commands.list[i]->fills)
        if (const auto offset = static_cast<std::byte*>(fill.pointer) - begin; fill.byte == 0xFF && offset < 1024)
          filled[i].emplace_back(offset, fill.num_bytes);
      const auto is_of_x = [](const auto& zone) { return zone->buffer == "x"; };
      EXPECT_EQ(std::ranges::count_if(commands.list[i]->red_zones, is_of_x), i == end_is_looked_at_by ? 1 : 0) << i;
    }
    EXPECT_EQ(filled[0], (std::vector{std::pair(int64_t{0}, uint64_t{kBufferAlignment})}));
    EXPECT_EQ(filled[1], (std::vector{std::pair(int64_t{kBufferAlignment}, uint64_t{kBufferAlignment})}));
    EXPECT_TRUE(filled[2].empty());
  };
  check({.offset = 0, .num_elements = 2 * kHalf}, 2);
  check({.offset = kHalf, .num_elements = kHalf}, 0);  // the last one does not wait for the first
}

TEST_P(ExecutableTest, TheMemoryCheckFindsTheFirstActionWithAResultThatIsNotFinite) {
  const auto fill = [](float value) {
    return [value](auto operands) { std::fill_n(static_cast<float*>(operands[0].data), kElements, value); };
  };
  EXPECT_EQ(step(fill(1.0f), true).first_not_finite, std::nullopt);
  EXPECT_EQ(step(fill(INFINITY)).first_not_finite, std::nullopt);  // without the check
  const StepResult result = step(fill(INFINITY), true);
  ASSERT_TRUE(result.first_not_finite);
  EXPECT_EQ(first_call_, *result.first_not_finite);
}

TEST_P(ExecutableTest, TheMemoryCheckForgetsWhatWasNotFiniteInTheStepBefore) {
  int calls = 0;
  const auto fill_once = [&](auto operands) {
    std::fill_n(static_cast<float*>(operands[0].data), kElements, calls++ == 0 ? INFINITY : 1.0f);
  };
  EXPECT_EQ(step(fill_once, true, 2).first_not_finite, std::nullopt);
  EXPECT_EQ(calls, 2);
}

TEST_P(ExecutableTest, ACallRunsOnceAStepWithItsBuffer) {
  int calls = 0;
  const StepResult result = step([&](auto operands) {
    ++calls;
    std::fill_n(static_cast<float*>(operands[0].data), kElements, 1.0f);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_GT(result.loss_sum / 8, 3.0);  // about ln 32
  EXPECT_LT(result.loss_sum / 8, 4.0);
  EXPECT_TRUE(result.updated);
}

TEST_P(ExecutableTest, AFailedCallEndsTheStepWithItsError) {
  expect_error([&] { step([](auto) { throw Error(TSR_E_DATA_LOSS, "the call failed"); }); },
               {"[caller] #", " call wte.weight of strategy caller on axis dp (tag 7): the call failed"});
}

TEST_P(ExecutableTest, ACallThatReturnsNeitherOkNorAnErrorEndsTheStep) {
  interface_.call = [](tsr_strategy*, const tsr_call*, tsr_error*) noexcept -> tsr_status { return TSR_IN_PROGRESS; };
  expect_error([&] { step([](auto) {}); }, {"returned 1", "only TSR_OK and errors"});
}

TEST_P(ExecutableTest, FreshMemoryIsNotANumberInDebugMode) {
  bool all_nan = true;
  step(
      [&](auto operands) {
        for (uint64_t i = 0; i < kElements; ++i)
          all_nan &= std::isnan(static_cast<float*>(operands[0].data)[i]);
      },
      true);
  EXPECT_TRUE(all_nan);
}

TEST_P(ExecutableTest, AWritePastABufferIsReportedInDebugMode) {
  const auto write_past_end = [](auto operands) { static_cast<float*>(operands[0].data)[kElements] = 0.0f; };
  expect_error([&] { step(write_past_end, true); },
               {"byte 0 past the end of buffer mine, which is written by the call of caller with tag "});
}

TEST_P(ExecutableTest, AWritePastABufferThatPersistsIsReportedInDebugMode) {
  persists_ = true;
  const auto write_past_end = [](auto operands) { static_cast<float*>(operands[0].data)[kElements] = 0.0f; };
  expect_error([&] { step(write_past_end, true); },
               {"byte 0 past the end of buffer mine, which is written by the call of caller with tag "});
}

TEST_P(ExecutableTest, DebugModeChangesNoResult) {
  const auto nothing = [](auto operands) { std::fill_n(static_cast<float*>(operands[0].data), kElements, 0.0f); };
  EXPECT_EQ(step(nothing).grad_norm, step(nothing, true).grad_norm);
}

TEST_P(ExecutableTest, ACancelledRunStops) {
  cancelled_ = true;
  const auto until_it_is_known = [&](auto) {
    const int before = num_questions_;
    EXPECT_TRUE(eventually([&] { return num_questions_ > before; }));
  };
  expect_error([&] { step(until_it_is_known); }, {"stopped"});
}

TEST_P(ExecutableTest, AStepThatIsNotFiniteIsSkipped) {
  // Gradients of this scale overflow float32.
  model_.segments.back().op.attributes[TSR_ATTR_SCALE] = 1e38;
  const StepResult result = step([](auto) {});
  EXPECT_FALSE(result.updated);
  EXPECT_FALSE(std::isfinite(result.grad_norm));
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutableTest,
                         ::testing::Values("cpu-device", binary_dir("tests/devices/other-device.so")),
                         [](const auto& test) { return test.index ? "other" : "cpu"; });

}  // namespace
}  // namespace tessera::testing
