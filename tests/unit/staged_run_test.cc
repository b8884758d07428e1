// A rank whose communicator works on the host beside a device with streams of its own: errors on one pass to the other,
// and every run ends. And a rank whose communicator's work is captured with the device's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "exec/rank_runtime.h"
#include "exec/self_test/test_device.h"
#include "model/gpt2/gpt2.h"
#include "model/initial_values.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/paths.h"
#include "support/patience.h"
#include "support/plugin_loader.h"
#include "support/read_parameter.h"
#include "support/scripted_comm.h"
#include "tessera/strategy.hpp"

namespace tessera::testing {
using namespace host;
namespace {

using std::chrono::steady_clock;

/// Sums every parameter's gradient over the axis, and calls its body after the loss.
class Summer final : public Strategy {
 public:
  static constexpr std::string_view kName = "summer";
  Summer(std::string_view, std::span<const tsr_option_value>) {}
  Summer(std::function<void()> body, uint32_t num_variants) : body_(std::move(body)), num_variants_(num_variants) {}
  uint32_t num_variants() const override { return num_variants_; }

  void lower(const ProgramView& view, const Edit& edit) const override {
    if (view.raw.purpose != TSR_PURPOSE_STEP) return;
    uint64_t loss = 0, first_squares = 0;
    for (const tsr_action& a : view.actions()) {
      if (a.kind == TSR_ACTION_LOSS) loss = a.id;
      if (a.kind == TSR_ACTION_SUM_SQUARES && !first_squares) first_squares = a.id;
    }
    for (const tsr_home& home : view.homes()) {
      const tsr_home_role& gradient = role_of(home, TSR_HOME_GRADIENT);
      tsr_action sum = make_action(TSR_ACTION_ALL_REDUCE, edit.stream(view.raw.axis, "gradient"));
      sum.group = edit.group(view.raw.axis);
      sum.reduce = TSR_REDUCE_SUM;
      const tsr_binding range{gradient.buffer, gradient.offset, gradient.num_elements,
                              TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_ADD};
      edit.insert(first_squares, TSR_BEFORE, sum, {&range, 1});
    }
    if (!body_) return;
    const uint64_t buffer = edit.add_buffer("mine", TSR_BUFFER_PLUGIN, TSR_F32, 8);
    tsr_action action = make_action(TSR_ACTION_CALL, TSR_STREAM_COMPUTE);
    action.strategy = view.raw.strategy;
    const tsr_binding whole{buffer, 0, 8, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE};
    edit.insert(loss, TSR_AFTER, action, {&whole, 1});
  }
  void call_action(const tsr_call&) const override { body_(); }

 private:
  std::function<void()> body_;
  uint32_t num_variants_ = 1;
};
using Table = StrategyTable<Summer, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

/// The test device, or a device plugin's path in TESSERA_TEST_DEVICE.
std::string device_path() {
  const char* device = std::getenv("TESSERA_TEST_DEVICE");
  return device ? device : binary_dir("tests/devices/other-device.so");
}

/// `launch` of the device under test, which notes the kernels.
struct Launches {
  static inline const tsr_device_interface* device = nullptr;
  static inline std::set<tsr_kernel*> kernels;

  static tsr_status launch(tsr_kernel* kernel, tsr_stream* stream, void* const* pointers, uint64_t num_pointers,
                           tsr_error* err) TSR_NOEXCEPT {
    kernels.insert(kernel);
    return device->launch(kernel, stream, pointers, num_pointers, err);
  }
};

/// Functions of the device under test that do not what their contracts require, once they are put into its table.
struct Lies {
  static inline const tsr_device_interface* device = nullptr;
  static inline std::atomic<bool> is_on{false};
  static inline tsr_device_capture capture;
  static inline tsr_device_semaphore semaphore;

  static tsr_status hang(void*, tsr_error*) noexcept {
    for (;;)
      ::pause();
  }
  static tsr_status launch_for_ever(tsr_kernel* kernel, tsr_stream* stream, void* const* pointers,
                                    uint64_t num_pointers, tsr_error* err) TSR_NOEXCEPT {
    return is_on ? device->host_function(stream, &hang, nullptr, err)
                 : device->launch(kernel, stream, pointers, num_pointers, err);
  }
  static tsr_status say_it_is_done(tsr_stream* stream, int64_t timeout_ms, tsr_error* err) TSR_NOEXCEPT {
    return is_on ? TSR_OK : device->stream_synchronize(stream, timeout_ms, err);
  }
  static tsr_status run_twice(tsr_stream* stream, tsr_host_function function, void* user, tsr_error* err) TSR_NOEXCEPT {
    if (is_on) device->host_function(stream, function, user, err);
    return device->host_function(stream, function, user, err);
  }

  static tsr_status launch_nothing(tsr_graph*, tsr_stream*, tsr_error*) TSR_NOEXCEPT { return TSR_OK; }
  static tsr_status wait_for_nothing(tsr_stream*, tsr_semaphore*, uint32_t, tsr_error*) TSR_NOEXCEPT { return TSR_OK; }
  static void signal_nothing(tsr_semaphore*, uint32_t) TSR_NOEXCEPT {}
  static tsr_status use_more_than_there_is(tsr_device*, uint64_t* total, uint64_t* used, tsr_error*) TSR_NOEXCEPT {
    *total = 100;
    *used = 101;
    return TSR_OK;
  }

  static tsr_status create_times(tsr_device*, uint64_t count, tsr_timestamps** times, tsr_error*) TSR_NOEXCEPT {
    *times = reinterpret_cast<tsr_timestamps*>(new std::vector<int64_t>(count));
    return TSR_OK;
  }
  static void destroy_times(tsr_timestamps* times) TSR_NOEXCEPT {
    delete reinterpret_cast<std::vector<int64_t>*>(times);
  }
  static tsr_status write_time(tsr_timestamps*, tsr_stream*, uint64_t, tsr_error*) TSR_NOEXCEPT { return TSR_OK; }
  /// An hour late.
  static tsr_status read_times(tsr_timestamps* times, int64_t* times_ns, tsr_error*) TSR_NOEXCEPT {
    const size_t count = reinterpret_cast<std::vector<int64_t>*>(times)->size();
    std::fill_n(times_ns, count, monotonic_ns() + int64_t{3'600'000'000'000});
    return TSR_OK;
  }

  static const void* get_extension(tsr_str id) TSR_NOEXCEPT {
    static constexpr tsr_device_memory_info kMemory{sizeof kMemory, 0, &use_more_than_there_is};
    static constexpr tsr_device_timestamps kTimes{sizeof kTimes,  0,           &create_times,
                                                  &destroy_times, &write_time, &read_times};
    if (view(id) == TSR_DEVICE_CAPTURE) return &capture;
    if (view(id) == TSR_DEVICE_SEMAPHORE) return &semaphore;
    if (view(id) == TSR_DEVICE_TIMESTAMPS) return &kTimes;
    return view(id) == TSR_DEVICE_MEMORY_INFO ? &kMemory : nullptr;
  }
};

class RunTest : public ::testing::Test {
 protected:
  std::unique_ptr<RankRuntime> make(bool on_host, std::function<void()> call_body = {}) {
    summer_ = std::make_unique<Summer>(std::move(call_body), num_variants_);
    Strategy& strategy = *summer_;
    on_axis_ = {"summer", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)};
    const auto workspace = [](const Program&, const Action&, int) { return uint64_t{64}; };
    const CompileInput input{model_,
                             mesh_,
                             {},
                             {&on_axis_, 1},
                             [this](const tsr_op& op) { return describe_op(device_, op); },
                             workspace,
                             0,
                             {.collectives = on_host, .calls = true},
                             true};
    RankSetup setup;
    setup.device.api = &table_;
    setup.device.options = options_;
    setup.device.host = &host_;
    setup.stages_collectives = on_host;
    if (on_host) setup.host_device = DeviceSetup{.api = &cpu_, .host = &host_};
    setup.strategies = {&on_axis_, 1};
    setup.communicators.api = &scripted_communicator(script_);
    setup.communicators.host = &host_;
    setup.communicators.timeout_ms = timeout_ms_;
    setup.communicators.is_capturable = true;
    setup.graphs.all_agree = [this](bool captured) {
      captured_.push_back(captured);
      return captured && others_capture_;
    };
    setup.graphs.warn = [this](const std::string& why) { warnings_.push_back(why); };
    setup.cancelled = [this] { return cancelled_.load(); };
    auto runtime = std::make_unique<RankRuntime>(setup, compile_rank(input, {0}));
    runtime->initialize(InitialValues(3, model_.parameters));
    return runtime;
  }

  StepResult step(RankRuntime& runtime, int64_t number = 0) {
    const MicroBatch batch{std::vector<int32_t>(8, 1), std::vector<int32_t>(8, 2)};
    return runtime.run_step(number, 1e-3, 1, {&batch, 1});
  }

  /// The first matrix of the model.
  std::vector<float> parameter(RankRuntime& runtime) const {
    std::vector<float> values(model_.parameters[0].num_elements);
    read_parameter(runtime, 0, values);
    return values;
  }

  void use_lying_tables() {
    Lies::capture = *static_cast<const tsr_device_capture*>(device_.get_extension(str(TSR_DEVICE_CAPTURE)));
    Lies::semaphore = *static_cast<const tsr_device_semaphore*>(device_.get_extension(str(TSR_DEVICE_SEMAPHORE)));
    table_.get_extension = &Lies::get_extension;
  }
  /// A step with the lies on.
  void step_of_lies(bool on_host) {
    auto runtime = make(on_host);
    Lies::is_on = true;
    step(*runtime);
  }
  void test_the_device() const {
    const Device device({.api = &table_, .options = options_, .host = &host_});
    test_device(device, kPatienceMs);
  }

  /// The step must fail with that error, long before anything times out.
  void expect_soon(RankRuntime& runtime, const std::string& error) {
    const auto start = steady_clock::now();
    expect_error([&] { step(runtime); }, {error});
    EXPECT_LT(steady_clock::now() - start, kPatience);
  }

  Script script_;
  MemoryKv store_;
  tsr_host host_ = store_.host();
  const tsr_device_interface& device_ = load_plugin<tsr_device_interface>(device_path(), TSR_DEVICE_INTERFACE);
  tsr_device_interface table_ = device_;
  const std::vector<tsr_option_value> options_ = default_options(device_path());
  const tsr_device_interface& cpu_ = load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE);
  Mesh mesh_{{{"dp", 2, TSR_SPLITS_BATCH}}};
  Model model_ = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 16, .vocab = 32, .positions = 8, .ffn = 64},
                           {.batch = 1, .seq = 8, .loss_scale = 1.0 / 8});
  int64_t timeout_ms_ = kNeverMs;
  std::atomic<bool> cancelled_{false};
  uint32_t num_variants_ = 1;
  bool others_capture_ = true;
  std::vector<bool> captured_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Summer> summer_;
  StrategyOnAxis on_axis_;
};

TEST_F(RunTest, AStagedStepRunsAgainAndAgain) {
  auto runtime = make(true);
  EXPECT_EQ(runtime->obstacle_to_graphs(), "the communicator works on the host");
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(step(*runtime).updated);
  EXPECT_GT(script_.num_runs, 5 * 10);
  EXPECT_EQ(captured_, std::vector<bool>{false});  // each rank says so, once
  EXPECT_TRUE(warnings_.empty());
}

// A collective that was cut off, on streams that go on: the other rank's part is missing.
TEST_F(RunTest, WithoutTheSquaresOfAllRanksNothingIsUpdated) {
  for (const bool on_host : {true, false})
    for (const uint8_t num_arrivals : {1, 3}) {
      auto runtime = make(on_host);
      EXPECT_TRUE(step(*runtime).updated);
      const std::vector<float> before = parameter(*runtime);
      script_.num_arrivals = num_arrivals;
      expect_soon(*runtime, "step 1: the sum of squares counts " + std::to_string(num_arrivals) +
                                " ranks instead of 2, so it is not whole and no parameter was updated");
      EXPECT_EQ(parameter(*runtime), before);
      script_.num_arrivals = 2;
      if (!on_host) continue;  // the second step was captured with what the script did then
      EXPECT_TRUE(step(*runtime).updated);
      EXPECT_NE(parameter(*runtime), before);
    }
}

// The device's streams wait for semaphores that nothing would signal.
TEST_F(RunTest, ACollectiveThatFailsOnTheHostEndsTheStep) {
  for (const int which : {0, 3, 11}) {
    auto runtime = make(true);
    step(*runtime);
    script_.on_run = [&, fails_at = script_.num_runs + which] {
      if (script_.num_runs > fails_at) throw Error(TSR_E_UNAVAILABLE, "rank 1 went away");
    };
    script_.aborted.clear();
    expect_soon(*runtime, "rank 1 went away");
    ASSERT_GE(script_.aborted.size(), 2u);
    EXPECT_EQ(script_.aborted[0], "world.scalars") << "no other collective is cut short before the sums over the world";
    script_.on_run = [] {};
  }
}

// So much work waits for the semaphore that the device would take no more, and block the issuing thread.
TEST_F(RunTest, ACollectiveThatFailsEndsAStepOfManyActions) {
  model_ = make_gpt2({.num_layers = 40, .num_heads = 2, .embed = 16, .vocab = 32, .positions = 8, .ffn = 64},
                     {.batch = 1, .seq = 8, .loss_scale = 1.0 / 8});
  auto runtime = make(true);
  step(*runtime);
  script_.on_run = [] { throw Error(TSR_E_UNAVAILABLE, "rank 1 went away"); };
  expect_soon(*runtime, "rank 1 went away");
}

// The host's streams wait for work of the device that never comes.
TEST_F(RunTest, WorkThatFailsOnTheDeviceEndsTheStep) {
  bool fails = false;
  auto runtime = make(true, [&] {
    if (fails) throw Error(TSR_E_DATA_LOSS, "the call failed");
  });
  step(*runtime);
  fails = true;
  expect_soon(*runtime, "the call failed");
}

TEST_F(RunTest, WorkThatFailsOnTheDeviceEndsACollectiveThatWouldNot) {
  bool fails = false;
  auto runtime = make(true, [&] {
    if (fails) throw Error(TSR_E_DATA_LOSS, "the call failed");
  });
  step(*runtime);
  script_.on_run = [&] { script_.wait_for_abort(); };  // the sum of the loss does not wait for the call
  fails = true;
  expect_soon(*runtime, "the call failed");
}

TEST_F(RunTest, ACancelledRunEndsWhatWaitsOnBothSides) {
  auto runtime = make(true);
  step(*runtime);
  script_.on_run = [&] {
    cancelled_ = true;
    script_.wait_for_abort();
  };
  expect_soon(*runtime, "the run was stopped");
}

TEST_F(RunTest, AGraphIsSubmittedTwiceAndRunEveryTime) {
  auto runtime = make(false);
  EXPECT_EQ(runtime->obstacle_to_graphs(), "");
  step(*runtime);
  const int num_collectives = script_.num_runs;
  ASSERT_GT(num_collectives, 10);
  for (int i = 1; i < 5; ++i)
    step(*runtime);
  EXPECT_EQ(script_.num_runs, 5 * num_collectives);
  EXPECT_EQ(script_.sequences.size(), 2u * static_cast<size_t>(num_collectives));
  EXPECT_EQ(captured_, (std::vector<bool>{true, true}));  // it can, and it has
  // An evaluation is not a step: its collectives are submitted, and counted after those of the graph's runs.
  script_.sequences.clear();
  const MicroBatch batch{std::vector<int32_t>(8, 1), std::vector<int32_t>(8, 2)};
  runtime->run_eval({&batch, 1});
  ASSERT_EQ(script_.sequences.size(), 1u);  // the loss, which a step sums once too, on the stream of the squares
  EXPECT_EQ(script_.sequences[0], 5u * 2u);
}

// A kernel that is loaded while a collective waits for other ranks may wait for that collective.
TEST_F(RunTest, KernelsAreLoadedBeforeCollectivesWait) {
  Launches::device = &device_;
  Launches::kernels.clear();
  table_.launch = &Launches::launch;
  auto runtime = make(false);
  const std::set<tsr_kernel*> loaded = std::exchange(Launches::kernels, {});
  step(*runtime);
  EXPECT_GT(Launches::kernels.size(), 10u);
  EXPECT_TRUE(std::ranges::includes(loaded, Launches::kernels));
}

TEST_F(RunTest, WhatAnotherRankCannotCaptureIsNotCapturedHere) {
  others_capture_ = false;
  auto runtime = make(false);
  for (int i = 0; i < 4; ++i)
    step(*runtime);
  EXPECT_EQ(captured_, std::vector<bool>{true}) << "nothing is captured before all can";
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("another rank cannot capture its own"), std::string::npos) << warnings_[0];
}

// Which variants have equal programs may differ by rank.
TEST_F(RunTest, RanksAreAskedAboutEachVariant) {
  num_variants_ = 2;
  auto runtime = make(false);
  for (int64_t i = 0; i < 6; ++i)
    step(*runtime, i);
  EXPECT_EQ(captured_, (std::vector<bool>{true, true, true, true}));
}

// The time of a collective in a graph is not measured; that of the step is.
TEST_F(RunTest, AGraphThatDoesNotEndIsGivenUp) {
  with_short_time(500, [this](int64_t timeout_ms) {
    timeout_ms_ = timeout_ms;
    script_.on_run = [] {};
    auto runtime = make(false);
    step(*runtime);
    step(*runtime);
    script_.on_run = [&] { script_.wait_for_abort(); };
    expect_soon(*runtime, "a step that runs as a graph has taken " + std::to_string(timeout_ms) +
                              " ms (--timeout-ms) longer than without a graph");
  });
}

// ---- devices that lie -----------------------------------------------------------------------------------------------

// So much waits at a semaphore that nothing more is issued.
TEST_F(RunTest, WorkThatNeverEndsEndsTheRunWhileItIsIssued) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  timeout_ms_ = 500;
  Lies::device = &device_;
  table_.launch = &Lies::launch_for_ever;
  EXPECT_EXIT(step_of_lies(true), ::testing::ExitedWithCode(1), "has ended none of its work for 10550 ms");
}

TEST_F(RunTest, WorkThatIsSaidToHaveEndedEndsTheRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Lies::device = &device_;
  table_.launch = &Lies::launch_for_ever;
  table_.stream_synchronize = &Lies::say_it_is_done;
  EXPECT_EXIT(step_of_lies(false), ::testing::ExitedWithCode(1),
              "returned OK before its work had ended: [0-9]+ of [0-9]+ host functions on its streams had not run");
}

TEST_F(RunTest, FunctionsThatRunTwiceEndTheRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Lies::device = &device_;
  table_.host_function = &Lies::run_twice;
  EXPECT_EXIT(step_of_lies(false), ::testing::ExitedWithCode(1),
              " has run [0-9]+ functions [0-9]+ times instead of once each");
}

TEST_F(RunTest, AGraphThatRunsNothingIsAnError) {
  use_lying_tables();
  Lies::capture.launch = &Lies::launch_nothing;
  auto runtime = make(false);
  EXPECT_TRUE(step(*runtime).updated);
  expect_error([&] { step(*runtime); },
               {"step 1: ", " has not run what the step's graph holds", "clip has left no result", "--cuda-graph=off"});
}

TEST_F(RunTest, TheSelfTestFindsSemaphoresThatDoNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  use_lying_tables();
  test_the_device();
  Lies::semaphore.wait = &Lies::wait_for_nothing;
  EXPECT_TRUE(eventually([this] {  // on a busy machine the stream may be late by itself
    try {
      test_the_device();
      return false;
    } catch (const Error& e) {
      return std::string_view(e.what()).find("fails its self-test: a stream did not wait for a semaphore") !=
             std::string_view::npos;
    }
  }));
  use_lying_tables();
  Lies::semaphore.signal = &Lies::signal_nothing;
  EXPECT_EXIT(test_the_device(), ::testing::ExitedWithCode(1), "a stream did not go on after a semaphore was signaled");
}

TEST_F(RunTest, TheSelfTestFindsAGraphThatRunsNothing) {
  use_lying_tables();
  Lies::capture.launch = &Lies::launch_nothing;
  expect_error([this] { test_the_device(); }, {"launch 1 of a graph did not run all that it holds"});
}

TEST_F(RunTest, TimesAndMemoryThatCannotBeAreErrors) {
  use_lying_tables();
  auto runtime = make(true);
  expect_error([&] { static_cast<void>(runtime->device_memory()); }, {" returned 101 bytes in use of 100"});
  const MicroBatch batch{std::vector<int32_t>(8, 1), std::vector<int32_t>(8, 2)};
  StepTimes times;
  expect_error(
      [&] {
        runtime->run_step(0, 1e-3, 1, {&batch, 1}, {}, &times);
      },
      {" returned the times ", " for the begin and the end of action "});
}

TEST_F(RunTest, WithoutSemaphoresThereIsNoWayBackFromTheHost) {
  tsr_device_interface bare = device_;
  bare.get_extension = nullptr;
  const Device device({.api = &bare, .options = options_, .host = &host_});
  expect_error([&] { make_sync_to(device); }, {" has no semaphores (tsr.device.semaphore/1)"});
}

// What waits for work that has failed must not run.
TEST(SyncToHost, ThatIsReleasedWithoutASignalFailsWhatWaits) {
  MemoryKv store;
  const tsr_host host = store.host();
  const Device device({.api = &load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE), .host = &host});
  const StreamHandle handle = make_stream(device, "waits");
  const RankStream stream{&device, handle.get()};
  const auto sync = make_sync_to_host();
  sync->begin_run();
  sync->wait(stream);
  sync->release();
  expect_error([&] { call(stream.api().stream_synchronize, stream.handle, kPatienceMs); }, {"has failed"});
}

}  // namespace
}  // namespace tessera::testing
