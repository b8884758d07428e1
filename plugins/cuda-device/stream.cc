// CUDA streams, plus what CUDA does not know: which failure precedes which work. Everything that orders or may fail
// takes the lock, enqueues and updates the clock in one go; kernels and copies, which cannot fail alone, take no lock.
//
// synchronize polls instead of blocking: cudaStreamSynchronize has no time-out, and a stream that waits for a rank that
// has died would never come back. For 80 us without sleeping, since most waits are short, then with sleeps up to 100
// us.
#include "cuda-device/stream.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int64_t kMaxTimeoutMs = int64_t{1} << 40;  // what the clock can add without overflow

// The pause between two queries of a stream: none at first, since much work is short, then growing sleeps.
class Backoff {
 public:
  void pause() {
    if (SteadyClock::now() - start_ < kSpin) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, kMaxSleep);
  }

 private:
  static constexpr microseconds kSpin{80}, kMaxSleep{100};
  const SteadyClock::time_point start_ = SteadyClock::now();
  microseconds sleep_{10};
};

int priority_of(std::string_view name) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  return name.starts_with("comm") ? greatest : least;
}

Event& cuda(DeviceEvent& event) {
  return static_cast<Event&>(event);
}

// Builds the text with the number only for a failure.
void check_bytes(cudaError_t error, const char* call, uint64_t num_bytes) {
  if (error != cudaSuccess) check(error, std::string(call) + " of " + std::to_string(num_bytes) + " bytes");
}

}  // namespace

Capture::Capture(ErrorTracker& errors, Stream& origin)
    : streams_{&origin}, callbacks_(std::make_unique<GraphCallbacks>(errors)) {}

void Capture::leave(const Stream& stream) {
  std::erase(streams_, &stream);
}

// All streams of the capture are told, also those that joined by an event: the next event they record is an ordinary
// one.
std::unique_ptr<GraphCallbacks> Capture::close() {
  is_open_ = false;
  for (Stream* stream : streams_)
    stream->leave_capture();
  streams_.clear();
  return std::move(callbacks_);
}

Stream::Stream(const Context& context, ErrorTracker& errors, std::string_view name)
    : context_(context), errors_(errors), name_(name), index_(errors.add_stream(clock_)), callbacks_(errors) {
  context_.make_current();
  check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority_of(name)),
        "cudaStreamCreateWithPriority");
}

Stream::~Stream() {
  context_.try_make_current();
  if (capture_ && capture_->begun_by(*this))
    guard(nullptr, kName, [&] { end_capture(); });
  else if (capture_)
    capture_->leave(*this);
  cudaStreamSynchronize(handle_);
  cudaStreamDestroy(handle_);
}

std::optional<tsr_error> Stream::synchronize(int64_t timeout_ms) {
  context_.make_current();
  const Clock before = clock();
  const auto end = SteadyClock::now() + std::chrono::milliseconds(std::clamp(timeout_ms, int64_t{0}, kMaxTimeoutMs));
  cudaError_t status = cudaStreamQuery(handle_);
  for (Backoff backoff; status == cudaErrorNotReady; status = cudaStreamQuery(handle_)) {
    cudaGetLastError();  // which remembers "not ready" too
    if (SteadyClock::now() >= end) {
      if (auto failure = errors_.first_before(before)) return failure;  // the stream may be waiting for a semaphore
      throw Error(TSR_E_DEADLINE,
                  "stream " + name_ + ": operations still pending after " + std::to_string(timeout_ms) + " ms");
    }
    backoff.pause();
  }
  if (status != cudaSuccess) {
    tsr_error error{};
    guard(&error, kName,
          [&] { check(status, "stream " + name_ + ": work on GPU " + std::to_string(context_.index())); });
    errors_.fail_device(error);
  }
  return errors_.first_before(before);
}

void Stream::record(DeviceEvent& event) {
  Event& recorded = cuda(event);
  context_.make_current();
  const std::lock_guard lock(mutex_);
  check(cudaEventRecord(recorded.handle_, handle_), "cudaEventRecord");
  recorded.is_recorded_ = true;
  recorded.clock_ = clock_;
  recorded.capture_ = capture_;
}

// Three cases: an event of an open capture draws this stream into it; one of a capture that has ended belongs to the
// graph and is refused, where CUDA would give an error without a reason; any other merges its clock.
void Stream::wait(DeviceEvent& event) {
  const Event& awaited = cuda(event);
  if (!awaited.is_recorded_) return;
  if (awaited.capture_ && !awaited.capture_->is_open())
    throw Error(TSR_E_FAILED_PRECONDITION,
                "stream " + name_ + " waits for an event that was recorded in a capture; record it again");
  context_.make_current();
  const std::lock_guard lock(mutex_);
  check(cudaStreamWaitEvent(handle_, awaited.handle_, 0), "cudaStreamWaitEvent");
  if (!awaited.capture_) {
    clock_.merge(awaited.clock_);
  } else if (!capture_) {
    capture_ = awaited.capture_;
    capture_->join(*this);
  }
}

void Stream::copy(void* dst, const void* src, uint64_t num_bytes) {
  if (num_bytes == 0) return;
  context_.make_current();
  check_bytes(cudaMemcpyAsync(dst, src, num_bytes, cudaMemcpyDefault, handle_), "cudaMemcpyAsync", num_bytes);
}

void Stream::fill(void* dst, uint8_t byte, uint64_t num_bytes) {
  if (num_bytes == 0) return;
  context_.make_current();
  check_bytes(cudaMemsetAsync(dst, byte, num_bytes, handle_), "cudaMemsetAsync", num_bytes);
}

void Stream::host_function(tsr_host_function function, void* user) {
  context_.make_current();
  const std::lock_guard lock(mutex_);
  if (capture_)
    capture_->callbacks().add(handle_, function, user);
  else
    callbacks_.enqueue(handle_, function, user, next_work());
}

void Stream::record_time(cudaEvent_t event) {
  context_.make_current();
  const std::lock_guard lock(mutex_);
  if (capture_)
    throw Error(TSR_E_FAILED_PRECONDITION, "stream " + name_ + " is in a capture, which has no times of its own");
  check(cudaEventRecord(event, handle_), "cudaEventRecord");
}

void* Stream::native_handle(std::string_view kind) noexcept {
  return kind == kStreamKind ? handle_ : nullptr;
}

void Stream::begin_capture() {
  context_.make_current();
  const std::lock_guard lock(mutex_);
  if (capture_) throw Error(TSR_E_FAILED_PRECONDITION, "stream " + name_ + " is in a capture already");
  // Thread-local: a call of this thread that cannot be captured is refused; other ranks' threads are not affected.
  check(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  capture_ = std::make_shared<Capture>(errors_, *this);
}

// The streams leave the capture before anything may throw: they take work as before, whatever became of the graph.
std::unique_ptr<Graph> Stream::end_capture() {
  context_.make_current();
  const std::shared_ptr<Capture> capture = capture_;
  if (!capture || !capture->begun_by(*this))
    throw Error(TSR_E_FAILED_PRECONDITION, "stream " + name_ + " did not begin a capture; call begin first");
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(handle_, &graph);
  std::unique_ptr<GraphCallbacks> calls = capture->close();
  if (error != cudaSuccess && graph) cudaGraphDestroy(graph);
  check(error, "cudaStreamEndCapture");
  return std::make_unique<Graph>(context_, graph, std::move(calls), handle_);
}

void Stream::launch(Graph& graph) {
  context_.make_current();
  const std::lock_guard lock(mutex_);
  if (capture_)
    throw Error(TSR_E_FAILED_PRECONDITION, "stream " + name_ + " is in a capture; launch graphs after it has ended");
  const bool may_fail = !graph.callbacks().empty();
  if (may_fail) graph.callbacks().begin_launch(next_work());
  const cudaError_t error = cudaGraphLaunch(graph.handle(), handle_);
  if (error != cudaSuccess && may_fail) graph.callbacks().cancel_launch();
  check(error, "cudaGraphLaunch");
}

void Stream::leave_capture() {
  const std::lock_guard lock(mutex_);
  capture_.reset();
}

// Only what can fail by itself takes a ticket: clocks of a step without host functions never change.
Work Stream::next_work() {
  const uint64_t ticket = clock_.advance(index_);
  return {index_, ticket, clock_};
}

Clock Stream::clock() {
  const std::lock_guard lock(mutex_);
  return clock_;
}

}  // namespace tessera::cuda
