// The optional table tsr.device.capture/1 of tessera/device.h, for every device plugin that has it.
#include "support/device_fixture.h"

namespace tessera {
namespace {

using tessera::testing::kPatienceMs;

class DeviceCaptureTest : public tessera::testing::DeviceFixture {
 protected:
  using Graph = std::unique_ptr<tsr_graph, void (*)(tsr_graph*)>;

  void SetUp() override {
    DeviceFixture::SetUp();
    if (IsSkipped()) return;
    capture_ = static_cast<const tsr_device_capture*>(table_.get_extension(str(TSR_DEVICE_CAPTURE)));
    if (!capture_) GTEST_SKIP() << "the device does not support graphs";
    ASSERT_TRUE(TSR_HAS(capture_, tsr_device_capture, destroy));
    bytes_ = static_cast<uint8_t*>(allocate(TSR_MEMORY_HOST, 4096));
    memory_of_device_ = static_cast<uint8_t*>(allocate(TSR_MEMORY_DEVICE, 4096));
  }

  void begin(const Stream& stream) const { call(capture_->begin, stream.get()); }
  Graph end(const Stream& stream) const {
    tsr_graph* graph = nullptr;
    call(capture_->end, stream.get(), &graph);
    return Graph(graph, capture_->destroy);
  }
  void launch(const Graph& graph, const Stream& stream) const { call(capture_->launch, graph.get(), stream.get()); }
  void wait_for(const Stream& waiting, const Event& event, const Stream& recorded) const {
    call(table_.event_record, event.get(), recorded.get());
    call(table_.stream_wait, waiting.get(), event.get());
  }
  tsr_status status_of_begin(const Stream& stream) const {
    tsr_error err{};
    return capture_->begin(stream.get(), &err);
  }
  tsr_status status_of_end(const Stream& stream) const {
    tsr_graph* graph = nullptr;
    tsr_error err{};
    const tsr_status status = capture_->end(stream.get(), &graph, &err);
    capture_->destroy(graph);
    return status;
  }

  const tsr_device_capture* capture_ = nullptr;
  uint8_t *bytes_ = nullptr, *memory_of_device_ = nullptr;  // 4096 each; bytes_ is the host's
};

TEST_P(DeviceCaptureTest, AGraphRunsItsWorkAtEveryLaunchAndNotBefore) {
  const Stream stream = make_stream("compute"), other = make_stream("comm");
  const Event forked = make_event(), joined = make_event();
  call(table_.fill, stream.get(), memory_of_device_, 0u, uint64_t{300});
  std::fill_n(bytes_, 300, uint8_t{0});
  synchronize(stream);
  begin(stream);
  copy(stream, memory_of_device_, bytes_, 100);
  wait_for(other, forked, stream);
  copy(other, memory_of_device_ + 100, memory_of_device_, 100);
  call(table_.fill, stream.get(), memory_of_device_ + 200, 9u, uint64_t{100});
  wait_for(stream, joined, other);
  copy(stream, bytes_ + 100, memory_of_device_ + 100, 200);
  const Graph graph = end(stream);
  synchronize(stream);
  synchronize(other);
  EXPECT_EQ(bytes_[200], 0) << "the work ran while it was captured";
  for (const uint8_t value : {3, 5, 7}) {
    std::fill_n(bytes_, 100, value);
    launch(graph, stream);
    synchronize(stream);
    EXPECT_EQ(std::vector<uint8_t>(bytes_ + 100, bytes_ + 200), std::vector<uint8_t>(100, value));
    EXPECT_EQ(std::vector<uint8_t>(bytes_ + 200, bytes_ + 300), std::vector<uint8_t>(100, 9));
  }
}

TEST_P(DeviceCaptureTest, HostFunctionsRunOncePerLaunchInOrder) {
  const Stream stream = make_stream("compute");
  std::vector<int> runs;
  auto first = [&] { runs.push_back(1); };
  auto second = [&] { runs.push_back(2); };
  begin(stream);
  run_on(stream, first);
  run_on(stream, second);
  const Graph graph = end(stream);
  for (int i = 0; i < 3; ++i)
    launch(graph, stream);
  synchronize(stream);
  EXPECT_EQ(runs, (std::vector<int>{1, 2, 1, 2, 1, 2}));
}

TEST_P(DeviceCaptureTest, AFailureInAGraphFailsTheStreamsAfterIt) {
  const Stream stream = make_stream("compute"), after = make_stream("after"), other = make_stream("other");
  const Event event = make_event();
  int num_runs = 0;
  auto count = [&] { ++num_runs; };
  begin(stream);
  run_on(stream, count);
  fail(stream);
  run_on(stream, count);
  const Graph graph = end(stream);
  synchronize(stream);
  launch(graph, stream);
  launch(graph, stream);
  run_on(stream, count);
  wait_for(after, event, stream);
  run_on(after, count);
  expect_failed(stream);
  expect_failed(after);
  EXPECT_EQ(num_runs, 1);
  run_on(other, count);
  synchronize(other);
  EXPECT_EQ(num_runs, 2);
}

TEST_P(DeviceCaptureTest, AGraphOnAFailedStreamSkipsItsHostFunctions) {
  const Stream stream = make_stream("compute"), other = make_stream("other");
  bool ran = false;
  auto set = [&] { ran = true; };
  begin(stream);
  run_on(stream, set);
  const Graph graph = end(stream);
  fail(stream);
  launch(graph, stream);
  expect_failed(stream);
  EXPECT_FALSE(ran);
  launch(graph, other);
  synchronize(other);
  EXPECT_TRUE(ran);
}

TEST_P(DeviceCaptureTest, StreamsTakeWorkAfterACapture) {
  const Stream stream = make_stream("compute"), other = make_stream("comm");
  const Event forked = make_event(), joined = make_event();
  int num_runs = 0;
  auto count = [&] { ++num_runs; };
  for (int step = 0; step < 2; ++step) {
    begin(stream);
    wait_for(other, forked, stream);
    run_on(other, count);
    wait_for(stream, joined, other);
    const Graph graph = end(stream);
    EXPECT_EQ(num_runs, 2 * step);
    run_on(stream, count);
    wait_for(other, forked, stream);
    run_on(other, count);
    synchronize(other);
    EXPECT_EQ(num_runs, 2 * step + 2);
  }
}

TEST_P(DeviceCaptureTest, ACaptureBeginsAndEndsOnce) {
  const Stream stream = make_stream("compute");
  EXPECT_EQ(status_of_end(stream), TSR_E_FAILED_PRECONDITION);
  begin(stream);
  EXPECT_EQ(status_of_begin(stream), TSR_E_FAILED_PRECONDITION);
  const Graph graph = end(stream);
  EXPECT_EQ(status_of_end(stream), TSR_E_FAILED_PRECONDITION);
  launch(graph, stream);  // an empty graph
  synchronize(stream);
}

TEST_P(DeviceCaptureTest, ACaptureThatFailedLeavesItsStreamsUsable) {
  const Stream stream = make_stream("compute"), other = make_stream("comm");
  const Event forked = make_event();
  bool ran = false;
  auto set = [&] { ran = true; };
  begin(stream);
  wait_for(other, forked, stream);
  run_on(other, set);  // and stream does not wait for it
  EXPECT_NE(status_of_end(stream), TSR_OK);
  synchronize(stream);
  synchronize(other);
  EXPECT_FALSE(ran);
  run_on(other, set);
  synchronize(other);
  EXPECT_TRUE(ran);
  begin(stream);
  const Graph graph = end(stream);
}

TEST_P(DeviceCaptureTest, EventsOfACaptureAreOfNoUseAfterIt) {
  const Stream stream = make_stream("compute"), other = make_stream("other");
  const Event event = make_event();
  begin(stream);
  call(table_.event_record, event.get(), stream.get());
  const Graph graph = end(stream);
  tsr_error err{};
  EXPECT_EQ(table_.stream_wait(other.get(), event.get(), &err), TSR_E_FAILED_PRECONDITION);
  wait_for(other, event, stream);
  synchronize(other);
}

TEST_P(DeviceCaptureTest, NullMayBeDestroyed) {
  capture_->destroy(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Plugins, DeviceCaptureTest, tessera::testing::built_devices(), tessera::testing::device_name);

}  // namespace
}  // namespace tessera
