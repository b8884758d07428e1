// The device contract of tessera/device.h: memory, streams, events and their failure, for every device plugin.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <numeric>
#include <thread>

#include "support/device_fixture.h"

// The sanitizers' allocators end the process when memory runs out, unless told to report it as all others do.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace tessera {
namespace {

using tessera::testing::kPatienceMs;

class DeviceTest : public tessera::testing::DeviceFixture {};

TEST_P(DeviceTest, MemoryIsAligned) {
  for (const uint32_t memory : {TSR_MEMORY_DEVICE, TSR_MEMORY_HOST})
    for (const uint64_t num_bytes : {0, 1, 5000})
      EXPECT_EQ(reinterpret_cast<uintptr_t>(allocate(memory, num_bytes)) % 4096, 0u) << num_bytes;
  void* pointer = nullptr;
  tsr_error err{};
  EXPECT_EQ(table_.allocate(device_, TSR_MEMORY_DEVICE, uint64_t{1} << 60, &pointer, &err), TSR_E_RESOURCE_EXHAUSTED);
  EXPECT_EQ(table_.allocate(device_, 77, 8, &pointer, &err), TSR_E_INVALID_ARGUMENT);
}

// Communicators read it from other processes.
TEST_P(DeviceTest, HostMemoryIsReadAsThatOfAnyProcess) {
  auto* memory = static_cast<uint8_t*>(allocate(TSR_MEMORY_HOST, 5000));
  std::iota(memory, memory + 5000, uint8_t{0});
  std::vector<uint8_t> result(5000);
  const iovec local{result.data(), result.size()}, remote{memory, result.size()};
  const ssize_t num_read = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (num_read < 0 && (errno == EPERM || errno == ENOSYS))
    GTEST_SKIP() << "needs process_vm_readv, which this system refuses";
  ASSERT_EQ(num_read, 5000);
  EXPECT_TRUE(std::equal(result.begin(), result.end(), memory));
}

TEST_P(DeviceTest, NullMayBeDestroyed) {
  table_.close(nullptr);
  table_.release(device_, TSR_MEMORY_DEVICE, nullptr);
  table_.stream_destroy(nullptr);
  table_.event_destroy(nullptr);
  table_.kernel_destroy(nullptr);
}

TEST_P(DeviceTest, CopiesAndFillsInStreamOrder) {
  const Stream stream = make_stream("test");
  std::vector<uint8_t> source(1000), result(1000);
  std::iota(source.begin(), source.end(), uint8_t{0});
  auto* memory = static_cast<uint8_t*>(allocate(TSR_MEMORY_DEVICE, 2000));
  copy(stream, memory, source.data(), 1000);
  copy(stream, memory + 1000, memory, 1000);
  call(table_.fill, stream.get(), memory + 1000, 0x17u, uint64_t{100});
  copy(stream, result.data(), memory + 1000, 1000);
  synchronize(stream);
  std::fill(source.begin(), source.begin() + 100, uint8_t{0x17});
  EXPECT_EQ(result, source);
}

TEST_P(DeviceTest, HostFunctionsRunInOrderFromAnyThread) {
  const Stream stream = make_stream("test");
  int num_runs = 0;  // the stream orders the additions
  auto count = [&] { ++num_runs; };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i)
        run_on(stream, count);
    });
  for (auto& thread : threads)
    thread.join();
  synchronize(stream);
  EXPECT_EQ(num_runs, 300);
}

TEST_P(DeviceTest, SynchronizeHasADeadline) {
  const Stream stream = make_stream("test");
  std::promise<void> go;
  auto block = [future = go.get_future().share()] { future.wait(); };
  run_on(stream, block);
  tsr_error err{};
  EXPECT_EQ(table_.stream_synchronize(stream.get(), 20, &err), TSR_IN_PROGRESS);
  EXPECT_NE(err.message[0], '\0');
  EXPECT_EQ(table_.stream_synchronize(stream.get(), 0, &err), TSR_IN_PROGRESS);
  go.set_value();
  synchronize(stream);
  EXPECT_EQ(table_.stream_synchronize(stream.get(), -1, &err), TSR_E_INVALID_ARGUMENT);
}

TEST_P(DeviceTest, StreamsWaitForEventsWithoutBlockingTheCaller) {
  const Event event = make_event();
  const Stream first = make_stream("first"), second = make_stream("second");
  std::promise<void> go;
  std::atomic<int> value{0};
  int seen = -1;
  auto block = [&, future = go.get_future().share()] {
    future.wait();
    value = 1;
  };
  auto look = [&] { seen = value; };
  run_on(first, block);
  call(table_.event_record, event.get(), first.get());
  call(table_.stream_wait, second.get(), event.get());
  run_on(second, look);
  go.set_value();
  synchronize(second);
  EXPECT_EQ(seen, 1);
}

TEST_P(DeviceTest, EventsAreRecordedAgainEveryStep) {
  const Event ready = make_event(), taken = make_event();
  const Stream producer = make_stream("producer"), consumer = make_stream("consumer");
  int value = 0;
  std::vector<int> seen;
  auto produce = [&] { ++value; };
  auto consume = [&] { seen.push_back(value); };
  constexpr int kNumSteps = 50;
  for (int step = 0; step < kNumSteps; ++step) {
    call(table_.stream_wait, producer.get(), taken.get());
    run_on(producer, produce);
    call(table_.event_record, ready.get(), producer.get());
    call(table_.stream_wait, consumer.get(), ready.get());
    run_on(consumer, consume);
    call(table_.event_record, taken.get(), consumer.get());
    synchronize(producer);
    synchronize(consumer);
  }
  std::vector<int> expected(kNumSteps);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(seen, expected);
}

TEST_P(DeviceTest, AFailedStreamSkipsItsWorkAndFailsThoseThatWait) {
  const Event before = make_event(), after = make_event(), relayed = make_event();
  const Stream first = make_stream("first"), second = make_stream("second"), third = make_stream("third");
  const Stream other = make_stream("other");
  bool ran = false, other_ran = false;
  auto set = [&] { ran = true; };
  auto set_other = [&] { other_ran = true; };
  call(table_.event_record, before.get(), first.get());
  fail(first);
  run_on(first, set);
  call(table_.event_record, after.get(), first.get());
  call(table_.stream_wait, second.get(), after.get());
  call(table_.event_record, relayed.get(), second.get());
  call(table_.stream_wait, third.get(), relayed.get());
  run_on(third, set);
  call(table_.stream_wait, other.get(), before.get());
  run_on(other, set_other);
  for (const Stream* stream : {&first, &second, &third})
    expect_failed(*stream);
  expect_failed(first);  // it stays failed
  EXPECT_FALSE(ran);
  synchronize(other);
  EXPECT_TRUE(other_ran);
}

TEST_P(DeviceTest, AFailedStreamMayBeReplacedAndMemoryKeepsItsContent) {
  auto* memory = static_cast<unsigned char*>(allocate(TSR_MEMORY_DEVICE, 16));
  for (int round = 0; round < 3; ++round) {
    const Stream stream = make_stream("test");
    if (round == 0) call(table_.fill, stream.get(), memory, 7u, uint64_t{16});
    std::vector<unsigned char> content(16);
    copy(stream, content.data(), memory, content.size());
    synchronize(stream);
    EXPECT_EQ(content, std::vector<unsigned char>(16, 7)) << "round " << round;
    fail(stream);
    expect_failed(stream);
  }
}

// Only where no other stream can be made either the device is gone.
TEST_P(DeviceTest, DataLossOfAFunctionIsNotThatOfTheDevice) {
  const Stream lost = make_stream("test");
  tsr_error err{};
  call(
      table_.host_function, lost.get(), [](void*, tsr_error*) noexcept -> tsr_status { return TSR_E_DATA_LOSS; },
      nullptr);
  EXPECT_EQ(table_.stream_synchronize(lost.get(), kPatienceMs, &err), TSR_E_DATA_LOSS);
  const Stream next = make_stream("test");
  bool ran = false;
  auto set = [&] { ran = true; };
  run_on(next, set);
  synchronize(next);
  EXPECT_TRUE(ran);
}

TEST_P(DeviceTest, DestroyingAStreamWaitsForItsWork) {
  int num_runs = 0;
  auto count = [&] { ++num_runs; };
  {
    const Stream stream = make_stream("test");
    for (int i = 0; i < 100; ++i)
      run_on(stream, count);
  }
  EXPECT_EQ(num_runs, 100);
}

TEST_P(DeviceTest, NativeHandlesOfUnknownKindsAreNull) {
  const Stream stream = make_stream("test");
  EXPECT_EQ(table_.native_handle(stream.get(), str("no.such.stream")), nullptr);
  EXPECT_EQ(table_.get_extension(str("no.such.extension")), nullptr);
  EXPECT_GT(table_.stream_kind.len, 0u);
}

TEST_P(DeviceTest, OpenChecksItsArguments) {
  tsr_device_open_args args{};
  tsr_device* device = nullptr;
  tsr_error err{};
  EXPECT_EQ(table_.open(&args, &device, &err), TSR_E_INVALID_ARGUMENT);
  args.struct_size = sizeof args;
  args.host = &host_;
  EXPECT_EQ(table_.open(&args, &device, &err), TSR_E_INVALID_ARGUMENT) << "num_threads is 0";
  args.num_threads = 1;
  args.reserved = 1;
  EXPECT_EQ(table_.open(&args, &device, &err), TSR_E_INVALID_ARGUMENT) << "a reserved word is not 0";
  EXPECT_EQ(device, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Plugins, DeviceTest, tessera::testing::built_devices(), tessera::testing::device_name);

}  // namespace
}  // namespace tessera
