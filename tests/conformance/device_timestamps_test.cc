// The optional table tsr.device.timestamps/1 of tessera/device_timestamps.h, for every device plugin that has it.
#include <chrono>
#include <ctime>
#include <thread>

#include "support/device_fixture.h"
#include "tessera/device_timestamps.h"

namespace tessera {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kClockErrorNs = 5 * kMs;  // 20 us on a quiet machine

int64_t now_ns() {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class DeviceTimestampsTest : public tessera::testing::DeviceFixture {
 protected:
  using Timestamps = std::unique_ptr<tsr_timestamps, void (*)(tsr_timestamps*)>;

  void SetUp() override {
    DeviceFixture::SetUp();
    if (IsSkipped()) return;
    api_ = static_cast<const tsr_device_timestamps*>(table_.get_extension(str(TSR_DEVICE_TIMESTAMPS)));
    if (!api_) GTEST_SKIP() << "the device has no timestamps";
    ASSERT_TRUE(TSR_HAS(api_, tsr_device_timestamps, read));
  }

  Timestamps make(uint64_t count) const {
    tsr_timestamps* timestamps = nullptr;
    call(api_->create, device_, count, &timestamps);
    return Timestamps(timestamps, api_->destroy);
  }
  void write(const Timestamps& timestamps, const Stream& stream, uint64_t index) const {
    call(api_->write, timestamps.get(), stream.get(), index);
  }
  std::vector<int64_t> read(const Timestamps& timestamps, uint64_t count) const {
    std::vector<int64_t> times_ns(count, -1);
    call(api_->read, timestamps.get(), times_ns.data());
    return times_ns;
  }

  const tsr_device_timestamps* api_ = nullptr;
};

TEST_P(DeviceTimestampsTest, AreTheTimesAtWhichStreamsGotThere) {
  const Timestamps timestamps = make(4);
  const Stream stream = make_stream("compute"), other = make_stream("other");
  int64_t began_ns = 0;
  auto sleep = [&] {
    began_ns = now_ns();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  for (int run = 0; run < 3; ++run) {  // what was read is forgotten
    const int64_t before_ns = now_ns();
    write(timestamps, stream, 0);
    run_on(stream, sleep);
    write(timestamps, stream, 2);
    write(timestamps, other, 3);
    synchronize(stream);
    synchronize(other);
    const int64_t after_ns = now_ns();
    const std::vector<int64_t> times = read(timestamps, 4);
    EXPECT_GE(times[0], before_ns - kClockErrorNs);
    EXPECT_LE(times[2], after_ns + kClockErrorNs);
    EXPECT_GE(times[2] - times[0], 50 * kMs - 10'000);
    EXPECT_LE(times[0], began_ns + kClockErrorNs);
    EXPECT_GE(times[3], before_ns - kClockErrorNs);
    EXPECT_EQ(times[1], 0) << "it was not written";
    EXPECT_EQ(read(timestamps, 4), std::vector<int64_t>(4, 0)) << "none was written since";
  }
}

TEST_P(DeviceTimestampsTest, OfAStreamThatHasFailedAreThereToo) {
  const Timestamps timestamps = make(1);
  const Stream stream = make_stream("compute");
  fail(stream);
  write(timestamps, stream, 0);
  expect_failed(stream);
  EXPECT_GT(read(timestamps, 1)[0], 0);
}

TEST_P(DeviceTimestampsTest, RefuseAnIndexBeyondTheLast) {
  const Timestamps timestamps = make(3);
  const Stream stream = make_stream("compute");
  tsr_error err{};
  EXPECT_EQ(api_->write(timestamps.get(), stream.get(), 3, &err), TSR_E_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("timestamp 3 of 3"), std::string::npos) << err.message;
}

TEST_P(DeviceTimestampsTest, RefuseAStreamInACapture) {
  const auto* capture = static_cast<const tsr_device_capture*>(table_.get_extension(str(TSR_DEVICE_CAPTURE)));
  if (!capture) return;
  const Timestamps timestamps = make(1);
  const Stream stream = make_stream("compute");
  call(capture->begin, stream.get());
  tsr_error err{};
  EXPECT_EQ(api_->write(timestamps.get(), stream.get(), 0, &err), TSR_E_FAILED_PRECONDITION);
  tsr_graph* graph = nullptr;
  call(capture->end, stream.get(), &graph);
  capture->destroy(graph);
}

TEST_P(DeviceTimestampsTest, NoneAndNullMayBeDestroyed) {
  make(0);
  api_->destroy(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Plugins, DeviceTimestampsTest, tessera::testing::built_devices(),
                         tessera::testing::device_name);

}  // namespace
}  // namespace tessera
