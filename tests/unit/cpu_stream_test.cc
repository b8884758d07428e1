// Streams and events of cpu-device: order, failure and its spread, deadlines, re-recorded events.
#include "cpu-device/stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <numeric>
#include <thread>
#include <vector>

#include "support/patience.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

using testing::kPatienceMs;

/// Queues a C++ callable, which must outlive the stream's use of it.
template <class F>
void run_on(Stream& stream, F& f) {
  stream.host_function(
      [](void* user, tsr_error*) noexcept -> tsr_status {
        (*static_cast<F*>(user))();
        return TSR_OK;
      },
      &f);
}

tsr_status fail_with_abort(void*, tsr_error* err) noexcept {
  fill_error(err, TSR_E_ABORTED, "elsewhere", "rank 3 went away", 3);
  return TSR_E_ABORTED;
}

struct CallbackKernel final : Kernel {
  std::vector<void*> seen;
  void run(void* const* pointers) override { seen.assign(pointers, pointers + num_pointers); }
  size_t num_pointers = 0;
};

struct ThrowingKernel final : Kernel {
  void run(void* const*) override { throw Error(TSR_E_INTERNAL, "the kernel does not like this"); }
};

bool is_asleep(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(stat), {});
  const size_t state = text.rfind(") ");
  return state != std::string::npos && text[state + 2] == 'S';
}

TEST(CpuStream, SynchronizeDoesNotWaitForLaterWork) {
  Stream stream("test", 1);
  std::atomic<pid_t> waiter{0};
  std::promise<void> release;
  auto later = [&] { release.get_future().wait(); };
  auto first = [&] {  // submits the later work when the other thread waits for this alone
    EXPECT_TRUE(testing::eventually([&] { return waiter > 0 && is_asleep(waiter); }));
    run_on(stream, later);
  };
  run_on(stream, first);
  auto synchronized = std::async(std::launch::async, [&] {
    waiter = ::gettid();
    return stream.synchronize(testing::kNeverMs);
  });
  EXPECT_EQ(synchronized.wait_for(testing::kPatience), std::future_status::ready);
  release.set_value();
  EXPECT_FALSE(synchronized.get());
  EXPECT_FALSE(stream.synchronize(kPatienceMs));
}

TEST(CpuStream, RunsWorkFirstInFirstOut) {
  Stream stream("test", 1);
  constexpr int kNumWorks = 1000;
  std::vector<int> order;
  std::vector<std::pair<std::vector<int>*, int>> works;
  for (int i = 0; i < kNumWorks; ++i)
    works.emplace_back(&order, i);
  for (auto& work : works)
    stream.host_function(
        [](void* user, tsr_error*) noexcept -> tsr_status {
          const auto& [out, i] = *static_cast<std::pair<std::vector<int>*, int>*>(user);
          out->push_back(i);
          return TSR_OK;
        },
        &work);
  EXPECT_FALSE(stream.synchronize(kPatienceMs));
  std::vector<int> expected(kNumWorks);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(CpuStream, CopyAndFillSeeWhatCameBefore) {
  Stream stream("test", 1);
  std::vector<uint8_t> a(100), b(100, 1);
  stream.fill(a.data(), 7, 60);
  stream.copy(b.data(), a.data(), 60);
  stream.fill(nullptr, 0, 0);
  stream.copy(nullptr, nullptr, 0);
  EXPECT_FALSE(stream.synchronize(kPatienceMs));
  for (size_t i = 0; i < b.size(); ++i)
    EXPECT_EQ(b[i], i < 60 ? 7 : 1) << i;
}

TEST(CpuStream, LaunchCopiesFewAndManyPointers) {
  Stream stream("test", 1);
  for (const size_t num_pointers : {size_t{1}, Pointers::kInline, Pointers::kInline + 1, size_t{300}}) {
    const auto kernel = std::make_shared<CallbackKernel>();
    kernel->num_pointers = num_pointers;
    std::vector<char> memory(num_pointers);
    std::vector<void*> expected;
    for (char& byte : memory)
      expected.push_back(&byte);
    {
      std::vector<void*> pointers = expected;
      stream.launch(kernel, pointers);
      std::fill(pointers.begin(), pointers.end(), nullptr);
    }
    EXPECT_FALSE(stream.synchronize(kPatienceMs));
    EXPECT_EQ(kernel->seen, expected);
  }
}

TEST(CpuStream, SynchronizeOfAnUnusedStreamReturnsAtOnce) {
  Stream stream("test", 1);
  EXPECT_FALSE(stream.synchronize(0));
}

TEST(CpuStream, SynchronizeHasADeadline) {
  std::promise<void> go;
  Stream stream("busy", 1);
  auto block = [future = go.get_future().share()] { future.wait(); };
  run_on(stream, block);
  try {
    stream.synchronize(20);
    FAIL() << "no deadline";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), TSR_E_DEADLINE);
    EXPECT_NE(std::string(e.what()).find("stream busy: 1 of 1"), std::string::npos) << e.what();
  }
  go.set_value();
  EXPECT_FALSE(stream.synchronize(kPatienceMs));
  EXPECT_FALSE(stream.synchronize(INT64_MAX));
}

TEST(CpuStream, WaitBlocksTheStreamAndNotTheCaller) {
  std::promise<void> go;
  Stream first("first", 1), second("second", 1);
  Event event;
  std::atomic<int> value{0};
  auto block = [&, future = go.get_future().share()] {
    future.wait();
    value = 1;
  };
  int seen = -1;
  auto look = [&] { seen = value; };
  run_on(first, block);
  first.record(event);
  second.wait(event);
  run_on(second, look);
  go.set_value();  // reached, so wait() did not block
  EXPECT_FALSE(second.synchronize(kPatienceMs));
  EXPECT_EQ(seen, 1);
}

TEST(CpuStream, WaitForAnEventNeverRecordedPasses) {
  Stream stream("test", 1);
  Event event;
  stream.wait(event);
  EXPECT_FALSE(stream.synchronize(kPatienceMs));
}

TEST(CpuStream, EventsAreRecordedAgainEveryStep) {
  Stream producer("producer", 1), consumer("consumer", 1);
  Event ready, taken;
  int value = 0;
  std::vector<int> seen;
  auto produce = [&] { ++value; };
  auto consume = [&] { seen.push_back(value); };
  constexpr int kNumSteps = 500;
  for (int step = 0; step < kNumSteps; ++step) {
    producer.wait(taken);
    run_on(producer, produce);
    producer.record(ready);
    consumer.wait(ready);
    run_on(consumer, consume);
    consumer.record(taken);
  }
  EXPECT_FALSE(consumer.synchronize(kPatienceMs));
  std::vector<int> expected(kNumSteps);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(seen, expected);
}

TEST(CpuStream, AnEventMayBeDestroyedWhileWorkNamesIt) {
  std::promise<void> go;
  Stream first("first", 1), second("second", 1);
  auto block = [future = go.get_future().share()] { future.wait(); };
  run_on(first, block);
  {
    Event event;
    first.record(event);
    second.wait(event);
  }
  go.set_value();
  EXPECT_FALSE(second.synchronize(kPatienceMs));
}

TEST(CpuStream, AFailedStreamSkipsLaterWorkAndKeepsTheFirstError) {
  Stream stream("test", 1);
  bool ran = false;
  auto set = [&] { ran = true; };
  uint8_t byte = 1;
  stream.host_function(fail_with_abort, nullptr);
  stream.launch(std::make_shared<ThrowingKernel>(), {});
  run_on(stream, set);
  stream.fill(&byte, 2, 1);
  for (int i = 0; i < 2; ++i) {
    const auto error = stream.synchronize(kPatienceMs);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, TSR_E_ABORTED);
    EXPECT_EQ(error->rank, 3);
    EXPECT_STREQ(error->domain, "elsewhere");
    EXPECT_STREQ(error->message, "rank 3 went away");
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(byte, 1);
}

TEST(CpuStream, AKernelThatThrowsFailsTheStream) {
  Stream stream("test", 1);
  stream.launch(std::make_shared<ThrowingKernel>(), {});
  const auto error = stream.synchronize(kPatienceMs);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_INTERNAL);
  EXPECT_STREQ(error->domain, "cpu-device");
  EXPECT_STREQ(error->message, "the kernel does not like this");
}

TEST(CpuStream, AHostFunctionThatSaysNothingStillGetsAMessage) {
  Stream stream("test", 1);
  stream.host_function([](void*, tsr_error*) noexcept -> tsr_status { return TSR_E_DATA_LOSS; }, nullptr);
  const auto error = stream.synchronize(kPatienceMs);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_DATA_LOSS);
  EXPECT_STREQ(error->message, "a host function on the stream test failed with status -15 and gave no message");
}

TEST(CpuStream, FailureSpreadsThroughEventsButNotBackwards) {
  Stream first("first", 1), second("second", 1), third("third", 1), other("other", 1);
  Event before, after, relayed;
  bool ran = false, other_ran = false;
  auto set = [&] { ran = true; };
  auto set_other = [&] { other_ran = true; };
  first.record(before);
  first.host_function(fail_with_abort, nullptr);
  first.record(after);
  second.wait(after);
  second.record(relayed);
  third.wait(relayed);
  run_on(third, set);
  other.wait(before);
  run_on(other, set_other);
  const auto error = third.synchronize(kPatienceMs);
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->message, "rank 3 went away");
  EXPECT_FALSE(ran);
  EXPECT_FALSE(other.synchronize(kPatienceMs));
  EXPECT_TRUE(other_ran);
}

TEST(CpuStream, DestructionFinishesWhatIsQueued) {
  std::atomic<int> num_runs{0};
  auto count = [&] { ++num_runs; };
  {
    Stream stream("test", 1);
    for (int i = 0; i < 100; ++i)
      run_on(stream, count);
  }
  EXPECT_EQ(num_runs, 100);
}

TEST(CpuStream, AnyThreadMaySubmit) {
  Stream stream("test", 1);
  int num_runs = 0;  // the stream orders the additions
  auto count = [&] { ++num_runs; };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i)
        run_on(stream, count);
    });
  for (auto& thread : threads)
    thread.join();
  EXPECT_FALSE(stream.synchronize(kPatienceMs));
  EXPECT_EQ(num_runs, 1000);
}

}  // namespace
}  // namespace tessera::cpu
