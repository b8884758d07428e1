// A copy of state that is made while the next step runs is the state before that step, however late the copy is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "exec/rank_runtime.h"
#include "model/gpt2/gpt2.h"
#include "model/initial_values.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/paths.h"
#include "support/plugin_loader.h"
#include "tessera/strategy.hpp"

namespace tessera::testing {
using namespace host;
namespace {

constexpr auto kDelay = std::chrono::milliseconds(5);  // of each of some fifty copies

/// A device's table with another `copy`: each may begin late, never end while the device says that it has, or fail.
/// Kernels may fail, and what waits for a stream that is gone is counted.
struct CopyFaults {
  static inline const tsr_device_interface* device = nullptr;
  static inline std::atomic<bool> are_late{false}, fails{false}, kernels_fail{false};
  static inline std::mutex mutex;
  static inline std::set<const tsr_stream*> streams;  // guarded by mutex
  static inline std::atomic<int> num_waits_too_late{0};
  static inline std::atomic<const tsr_stream*> state_stream{nullptr};
  static inline std::atomic<bool> says_early{false};         // that the stream of copies is done
  static inline std::atomic<int> num_runs_of_functions{1};   // on it
  static inline std::atomic<bool> refuses_functions{false};  // there

  static tsr_status launch(tsr_kernel* kernel, tsr_stream* stream, void* const* pointers, uint64_t num_pointers,
                           tsr_error* err) TSR_NOEXCEPT {
    return kernels_fail ? fail(nullptr, err) : device->launch(kernel, stream, pointers, num_pointers, err);
  }
  static tsr_status create(tsr_device* on, tsr_str name, tsr_stream** stream, tsr_error* err) TSR_NOEXCEPT {
    const tsr_status status = device->stream_create(on, name, stream, err);
    const std::lock_guard lock(mutex);
    if (status == TSR_OK) streams.insert(*stream);
    if (status == TSR_OK && view(name) == "copy_state") state_stream = *stream;
    return status;
  }
  static void destroy(tsr_stream* stream) TSR_NOEXCEPT {
    {
      const std::lock_guard lock(mutex);
      streams.erase(stream);
    }
    device->stream_destroy(stream);
  }
  static tsr_status synchronize(tsr_stream* stream, int64_t timeout_ms, tsr_error* err) TSR_NOEXCEPT {
    {
      const std::lock_guard lock(mutex);
      if (!streams.contains(stream)) {
        ++num_waits_too_late;
        return TSR_OK;
      }
    }
    if (says_early && stream == state_stream) return TSR_OK;
    return device->stream_synchronize(stream, timeout_ms, err);
  }
  static tsr_status host_function(tsr_stream* stream, tsr_host_function function, void* user,
                                  tsr_error* err) TSR_NOEXCEPT {
    if (refuses_functions && stream == state_stream) return fail(nullptr, err);
    const int num_runs = stream == state_stream ? num_runs_of_functions.load() : 1;
    for (int i = 0; i < num_runs; ++i)
      if (const tsr_status status = device->host_function(stream, function, user, err); status != TSR_OK) return status;
    return TSR_OK;
  }

  static tsr_status wait(void*, tsr_error*) noexcept {
    std::this_thread::sleep_for(kDelay);
    return TSR_OK;
  }
  static tsr_status hang(void*, tsr_error*) noexcept {
    for (;;)
      ::pause();
  }
  static tsr_status fail(void*, tsr_error* err) noexcept {
    fill_error(err, TSR_E_DATA_LOSS, "test", "this work was lost");
    return TSR_E_DATA_LOSS;
  }
  static tsr_status copy(tsr_stream* stream, void* dst, const void* src, uint64_t num_bytes,
                         tsr_error* err) TSR_NOEXCEPT {
    if (are_late) device->host_function(stream, &CopyFaults::wait, nullptr, err);
    if (says_early && stream == state_stream) device->host_function(stream, &CopyFaults::hang, nullptr, err);
    if (fails) device->host_function(stream, &CopyFaults::fail, nullptr, err);
    return device->copy(stream, dst, src, num_bytes, err);
  }
};

/// Every other step zeroes a buffer of its own: two programs that differ.
class Alternates final : public Strategy {
 public:
  static constexpr std::string_view kName = "alternates";
  Alternates() = default;
  Alternates(std::string_view, std::span<const tsr_option_value>) {}

  uint32_t num_variants() const override { return 2; }
  void lower(const ProgramView& view, const Edit& edit) const override {
    if (view.raw.variant == 0) return;
    const uint64_t buffer = edit.add_buffer("mine", TSR_BUFFER_PLUGIN, TSR_F32, 16);
    const tsr_binding whole{buffer, 0, 16, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE};
    for (const tsr_action& a : view.actions())
      if (a.kind == TSR_ACTION_LOSS)
        edit.insert(a.id, TSR_AFTER, make_action(TSR_ACTION_ZERO, TSR_STREAM_COMPUTE), {&whole, 1});
  }
};
using AlternatesTable = StrategyTable<Alternates, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

class StateCopyTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    CopyFaults::device = &device_;
    table_.copy = &CopyFaults::copy;
    table_.launch = &CopyFaults::launch;
    table_.stream_create = &CopyFaults::create;
    table_.stream_destroy = &CopyFaults::destroy;
    table_.stream_synchronize = &CopyFaults::synchronize;
    table_.host_function = &CopyFaults::host_function;
    Strategy& strategy = alternates_;
    const StrategyOnAxis on_axis{"alternates", 0, &interface_, reinterpret_cast<tsr_strategy*>(&strategy)};
    CompileInput input{model_, mesh_, {}, {&on_axis, 1}, [this](const tsr_op& op) { return describe_op(device_, op); },
                       {}};
    RankSetup setup;
    setup.device.api = &table_;
    setup.device.host = &host_;
    runtime_ = std::make_unique<RankRuntime>(setup, compile_rank(input, {0}));
    ASSERT_NE(&runtime_->step_executable(0), &runtime_->step_executable(1));
    runtime_->initialize(InitialValues(3, model_.parameters));
    for (const Home& home : runtime_->programs().first().homes)
      for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_M, TSR_HOME_V})
        places_.push_back({home.roles[role].buffer, home.roles[role].offset, home.num_elements});
  }

  std::vector<std::byte> state() {
    std::vector<std::byte> all;
    for (const StatePlace& place : places_) {
      std::vector<std::byte> one(place.num_elements * sizeof(float));
      runtime_->read_state(runtime_->programs().first().buffer(place.buffer), place.offset, one);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  void step(uint64_t number) {
    const MicroBatch batch{std::vector{0, 1, 2, 3, 4, 5, 6, 7}, std::vector{1, 2, 3, 4, 5, 6, 7, 0}};
    runtime_->run_step(number, 1e-3, 1, {&batch, 1});
  }

  static std::vector<std::byte> bytes_of(const StateCopy& copy) { return {copy.bytes().begin(), copy.bytes().end()}; }

  const tsr_strategy_interface interface_ = AlternatesTable::kInterface;
  Alternates alternates_;
  MemoryKv store_;
  tsr_host host_ = store_.host();
  const tsr_device_interface& device_ = load_plugin<tsr_device_interface>(GetParam(), TSR_DEVICE_INTERFACE);
  tsr_device_interface table_ = device_;
  Mesh mesh_{{{"dp", 1, TSR_SPLITS_BATCH}}};
  Model model_ = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 16, .vocab = 50, .positions = 8, .ffn = 64},
                           {.batch = 1, .seq = 8, .loss_scale = 1.0 / 8});
  std::unique_ptr<RankRuntime> runtime_;
  std::vector<StatePlace> places_;
};

/// Without the wait before the first action that writes, the copy would be of what the step has updated.
TEST_P(StateCopyTest, AStepUpdatesNothingBeforeTheCopyIsDone) {
  StateCopy& copy = runtime_->reserve_copy(places_);
  double waited_ms = 0;  // of all: on a busy machine a copy may be done before the step comes to its first write
  for (uint64_t number = 0; number < 4; ++number) {
    const auto before = state();
    CopyFaults::are_late = true;
    copy.begin();
    CopyFaults::are_late = false;
    step(number);
    copy.wait();
    EXPECT_EQ(bytes_of(copy), before);
    EXPECT_NE(state(), before);
    waited_ms += copy.waited_ms();
  }
  EXPECT_GT(waited_ms, 0);
}

TEST_P(StateCopyTest, AnotherThreadMayWaitForIt) {
  StateCopy& copy = runtime_->reserve_copy(places_);
  const auto before = state();
  CopyFaults::are_late = true;
  copy.begin();
  CopyFaults::are_late = false;
  std::vector<std::byte> seen;
  std::thread reader([&] {
    copy.wait();
    seen = bytes_of(copy);
  });
  step(0);
  step(1);
  reader.join();
  EXPECT_EQ(seen, before);
}

TEST_P(StateCopyTest, ACopyThatFailsEndsNoStep) {
  StateCopy& copy = runtime_->reserve_copy(places_);
  CopyFaults::fails = true;
  copy.begin();
  CopyFaults::fails = false;
  step(0);
  expect_error([&] { copy.wait(); }, {"this work was lost"});
  const auto before = state();
  copy.begin();
  step(1);
  copy.wait();
  EXPECT_EQ(bytes_of(copy), before);
}

/// What was not issued need not end.
TEST_P(StateCopyTest, MayFailToBegin) {
  StateCopy& copy = runtime_->reserve_copy(places_);
  CopyFaults::refuses_functions = true;
  expect_error([&] { copy.begin(); }, {"this work was lost"});
  CopyFaults::refuses_functions = false;
  expect_error([&] { copy.wait(); }, {"this work was lost"});
  const auto before = state();
  copy.begin();
  step(0);
  copy.wait();
  EXPECT_EQ(bytes_of(copy), before);
}

/// A step that fails takes its streams with it, while the copy of the last state may still be under way.
TEST_P(StateCopyTest, IsWaitedForAfterAStepThatFails) {
  StateCopy& copy = runtime_->reserve_copy(places_);
  const auto before = state();
  CopyFaults::are_late = true;
  copy.begin();
  CopyFaults::are_late = false;
  CopyFaults::kernels_fail = true;
  expect_error([&] { step(0); }, {"this work was lost"});
  CopyFaults::kernels_fail = false;
  copy.wait();
  EXPECT_EQ(bytes_of(copy), before);
  EXPECT_EQ(CopyFaults::num_waits_too_late, 0);
}

/// The step would change what is still being copied.
TEST_P(StateCopyTest, ThatIsSaidToBeDoneTooEarlyEndsTheRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  StateCopy& copy = runtime_->reserve_copy(places_);
  const auto copy_and_step = [&] {
    CopyFaults::says_early = true;
    copy.begin();
    step(0);
  };
  EXPECT_EXIT(copy_and_step(), ::testing::ExitedWithCode(1),
              "returned OK before its work had ended: [0-9]+ of [0-9]+ host functions on its streams had not run");
}

/// What writes the copy waits for a function at its end.
TEST_P(StateCopyTest, WhoseFunctionsRunNeverOrTwiceEndsTheRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  StateCopy& copy = runtime_->reserve_copy(places_);
  const auto copy_and_step = [&](int num_runs) {
    CopyFaults::num_runs_of_functions = num_runs;
    copy.begin();
    step(0);
  };
  EXPECT_EXIT(copy_and_step(0), ::testing::ExitedWithCode(1), " host functions on its streams had not run");
  EXPECT_EXIT(copy_and_step(2), ::testing::ExitedWithCode(1), " has run [0-9]+ functions [0-9]+ times instead of once");
}

INSTANTIATE_TEST_SUITE_P(Devices, StateCopyTest,
                         ::testing::Values("cpu-device", binary_dir("tests/devices/other-device.so")),
                         [](const auto& test) { return test.index ? "other" : "cpu"; });

}  // namespace
}  // namespace tessera::testing
