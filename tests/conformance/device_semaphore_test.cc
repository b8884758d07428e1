// The optional tables tsr.device.semaphore/1 and tsr.device.memory_info/1 of tessera/device.h, for every device plugin
// that has them.
#include <algorithm>
#include <thread>

#include "support/device_fixture.h"

namespace tessera {
namespace {

class DeviceSemaphoreTest : public tessera::testing::DeviceFixture {
 protected:
  using Semaphore = std::unique_ptr<tsr_semaphore, void (*)(tsr_semaphore*)>;

  void SetUp() override {
    DeviceFixture::SetUp();
    if (IsSkipped()) return;
    api_ = static_cast<const tsr_device_semaphore*>(table_.get_extension(str(TSR_DEVICE_SEMAPHORE)));
    if (!api_) GTEST_SKIP() << "the device does not support semaphores";
    ASSERT_TRUE(TSR_HAS(api_, tsr_device_semaphore, signal));
  }

  Semaphore make_semaphore() const {
    tsr_semaphore* semaphore = nullptr;
    call(api_->create, device_, &semaphore);
    return Semaphore(semaphore, api_->destroy);
  }
  void wait(const Stream& stream, const Semaphore& semaphore, uint32_t value) const {
    call(api_->wait, stream.get(), semaphore.get(), value);
  }
  void signal(const Semaphore& semaphore, uint32_t value) const { api_->signal(semaphore.get(), value); }
  void expect_waiting(const Stream& stream) const {
    tsr_error err{};
    EXPECT_EQ(table_.stream_synchronize(stream.get(), 20, &err), TSR_IN_PROGRESS);
  }

  const tsr_device_semaphore* api_ = nullptr;
};

TEST_P(DeviceSemaphoreTest, AStreamWaitsUntilTheSemaphoreIsAtItsValue) {
  const Semaphore semaphore = make_semaphore();
  const Stream stream = make_stream("copy_in"), other = make_stream("other");
  bool ran = false, other_ran = false;
  auto set = [&] { ran = true; };
  auto set_other = [&] { other_ran = true; };
  wait(stream, semaphore, 2);
  run_on(stream, set);
  run_on(other, set_other);
  synchronize(other);
  EXPECT_TRUE(other_ran);
  signal(semaphore, 1);
  expect_waiting(stream);
  EXPECT_FALSE(ran);
  signal(semaphore, 2);
  synchronize(stream);
  EXPECT_TRUE(ran);
  wait(stream, semaphore, 1);  // it is above
  synchronize(stream);
}

TEST_P(DeviceSemaphoreTest, WhatWasWrittenBeforeTheOpeningIsSeen) {
  const Semaphore semaphore = make_semaphore();
  const Stream stream = make_stream("copy_in");
  constexpr uint64_t kNumBytes = 100'000;
  auto* pinned = static_cast<uint8_t*>(allocate(TSR_MEMORY_HOST, kNumBytes));
  auto* result = static_cast<uint8_t*>(allocate(TSR_MEMORY_HOST, kNumBytes));
  auto* memory = allocate(TSR_MEMORY_DEVICE, kNumBytes);
  for (uint32_t step = 1; step <= 20; ++step) {
    const auto value = static_cast<uint8_t>(step);
    wait(stream, semaphore, step);
    copy(stream, memory, pinned, kNumBytes);
    copy(stream, result, memory, kNumBytes);
    std::thread([&] {
      std::fill_n(pinned, kNumBytes, value);
      signal(semaphore, step);
    }).join();
    synchronize(stream);
    EXPECT_EQ(std::count(result, result + kNumBytes, value), static_cast<ptrdiff_t>(kNumBytes));
  }
}

TEST_P(DeviceSemaphoreTest, ASemaphoreIsNeverLoweredAndWrapsAround) {
  const Semaphore semaphore = make_semaphore();
  const Stream stream = make_stream("copy_in");
  signal(semaphore, 5);
  signal(semaphore, 3);
  wait(stream, semaphore, 5);
  synchronize(stream);
  for (const uint32_t value : {0x7fffffffu, 0xfffffffeu}) {
    signal(semaphore, value);
    wait(stream, semaphore, value);
    synchronize(stream);
  }
  wait(stream, semaphore, 1);  // three above
  expect_waiting(stream);
  signal(semaphore, 1);
  synchronize(stream);
}

TEST_P(DeviceSemaphoreTest, NullMayBeDestroyed) {
  api_->destroy(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Plugins, DeviceSemaphoreTest, tessera::testing::built_devices(),
                         tessera::testing::device_name);

class DeviceMemoryInfoTest : public tessera::testing::DeviceFixture {};

TEST_P(DeviceMemoryInfoTest, WhatIsAllocatedIsUsed) {
  const auto* info = static_cast<const tsr_device_memory_info*>(table_.get_extension(str(TSR_DEVICE_MEMORY_INFO)));
  if (!info) GTEST_SKIP() << "the device has no memory of its own";
  ASSERT_TRUE(TSR_HAS(info, tsr_device_memory_info, query));
  constexpr uint64_t kNumBytes = 64 << 20;
  allocate(TSR_MEMORY_DEVICE, kNumBytes);
  uint64_t total = 0, used = 0;
  call(info->query, device_, &total, &used);
  EXPECT_GE(used, kNumBytes);
  EXPECT_LE(used, total);
}

INSTANTIATE_TEST_SUITE_P(Plugins, DeviceMemoryInfoTest, tessera::testing::built_devices(),
                         tessera::testing::device_name);

}  // namespace
}  // namespace tessera
