#include "capture.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "stream.h"

namespace cuda_on_cpu {

class Capture {
 public:
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread = std::this_thread::get_id();
  std::vector<CUstream_st*> streams;  // by lane; null: destroyed
  TaskGraph graph;
  bool is_open = true, is_valid = true;

  /// Whether all nodes are among those that `after` comes after.
  bool is_joined_by(const std::vector<size_t>& after) const;
};

namespace {

std::mutex mutex;  // of all captures
std::set<Capture*>& open_captures() {
  static std::set<Capture*> captures;
  return captures;
}
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

void unite(std::vector<size_t>& after, const std::vector<size_t>& with) {
  after.insert(after.end(), with.begin(), with.end());
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
}

}  // namespace

void TaskGraph::run() const {
  std::vector<Mark> done(nodes.size());
  const auto run_lane = [&](size_t lane) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].lane != lane) continue;
      for (const size_t before : nodes[i].after)
        done[before].wait();
      nodes[i].task();
      done[i].set();
    }
  };
  std::vector<std::thread> threads;
  for (size_t lane = 1; lane < num_lanes; ++lane)
    threads.emplace_back(run_lane, lane);
  run_lane(0);
  for (std::thread& thread : threads)
    thread.join();
}

bool Capture::is_joined_by(const std::vector<size_t>& after) const {
  std::vector<bool> is_before(graph.nodes.size());
  for (const size_t node : after)
    is_before[node] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (is_before[i])
      for (const size_t before : graph.nodes[i].after)
        is_before[before] = true;
  return std::all_of(is_before.begin(), is_before.end(), [](bool before) { return before; });
}

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(mutex);
  if (stream.captured.capture) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = &stream;
  capture->mode = mode;
  capture->streams = {&stream};
  open_captures().insert(capture.get());
  stream.captured = {std::move(capture), {}};
  return cudaSuccess;
}

cudaError_t end_capture(CUstream_st& stream, TaskGraph* graph) {
  const std::lock_guard lock(mutex);
  const CapturePoint end = stream.captured;
  if (!end.capture) return cudaErrorIllegalState;
  Capture& capture = *end.capture;
  if (capture.origin != &stream) return cudaErrorStreamCaptureUnmatched;
  if (capture.mode != cudaStreamCaptureModeRelaxed && capture.thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  for (CUstream_st* member : capture.streams)
    if (member) member->captured = {};
  open_captures().erase(&capture);
  capture.is_open = false;
  if (!capture.is_valid) return cudaErrorStreamCaptureInvalidated;
  if (!capture.is_joined_by(end.after)) return cudaErrorStreamCaptureUnjoined;
  *graph = std::move(capture.graph);
  graph->num_lanes = capture.streams.size();
  return cudaSuccess;
}

void leave_capture(CUstream_st& stream) {
  const std::lock_guard lock(mutex);
  if (!stream.captured.capture) return;
  Capture& capture = *stream.captured.capture;
  std::replace(capture.streams.begin(), capture.streams.end(), &stream, static_cast<CUstream_st*>(nullptr));
  capture.is_valid = false;
  if (capture.origin == &stream) open_captures().erase(&capture);
  stream.captured = {};
}

cudaStreamCaptureStatus capture_status(CUstream_st& stream) {
  const std::lock_guard lock(mutex);
  if (!stream.captured.capture) return cudaStreamCaptureStatusNone;
  return stream.captured.capture->is_valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
}

bool capture_task(CUstream_st& stream, Task& task) {
  const std::lock_guard lock(mutex);
  if (!stream.captured.capture) return false;
  Capture& capture = *stream.captured.capture;
  const auto lane = std::find(capture.streams.begin(), capture.streams.end(), &stream) - capture.streams.begin();
  auto& nodes = capture.graph.nodes;
  nodes.push_back({std::move(task), std::move(stream.captured.after), static_cast<size_t>(lane)});
  stream.captured.after = {nodes.size() - 1};
  return true;
}

bool capture_record(CUevent_st& event, CUstream_st& stream) {
  const std::lock_guard lock(mutex);
  event.captured = stream.captured;
  event.mark = nullptr;
  return event.captured.capture != nullptr;
}

cudaError_t capture_wait(CUstream_st& stream, const CUevent_st& event) {
  const std::lock_guard lock(mutex);
  const auto& theirs = event.captured.capture;
  auto& ours = stream.captured.capture;
  if (!theirs && !ours) return cudaErrorNotReady;
  if (theirs && !ours && theirs->is_open) {
    ours = theirs;
    ours->streams.push_back(&stream);
  }
  if (ours != theirs) {
    if (ours) ours->is_valid = false;
    return cudaErrorStreamCaptureIsolation;
  }
  unite(stream.captured.after, event.captured.after);
  return cudaSuccess;
}

cudaError_t refuse_if_captured(CUstream_st& stream) {
  const std::lock_guard lock(mutex);
  if (!stream.captured.capture) return cudaSuccess;
  stream.captured.capture->is_valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t refuse_while_capturing() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const std::lock_guard lock(mutex);
  cudaError_t error = cudaSuccess;
  for (Capture* capture : open_captures()) {
    const bool is_own = capture->thread == std::this_thread::get_id() && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool is_global = thread_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (!is_own && !is_global) continue;
    capture->is_valid = false;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

void exchange_capture_mode(cudaStreamCaptureMode* mode) {
  std::swap(thread_mode, *mode);
}

}  // namespace cuda_on_cpu
