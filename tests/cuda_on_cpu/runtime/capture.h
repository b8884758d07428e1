// Work of streams that is remembered instead of done. Its order is that of the streams and events, as a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "worker.h"

namespace cuda_on_cpu {

/// Tasks, each after some earlier ones; those of one stream are one lane.
struct TaskGraph {
  struct Node {
    Task task;
    std::vector<size_t> after;
    size_t lane;
  };
  std::vector<Node> nodes;
  size_t num_lanes = 0;

  /// Does the tasks, each lane on a thread of its own, and waits for them. Only the order that `after` says is kept.
  void run() const;
};

class Capture;

/// The position of a stream or an event in a capture: after some of its nodes. Without a capture, it is in none.
struct CapturePoint {
  std::shared_ptr<Capture> capture;
  std::vector<size_t> after;
};

// Of streams and events, [any-thread].

cudaError_t begin_capture(CUstream_st& stream, cudaStreamCaptureMode mode);
/// Also on an error the capture has ended.
cudaError_t end_capture(CUstream_st& stream, TaskGraph* graph);
/// Before the stream is destroyed.
void leave_capture(CUstream_st& stream);
cudaStreamCaptureStatus capture_status(CUstream_st& stream);
/// False if the stream is in no capture: then the work is to be done.
bool capture_task(CUstream_st& stream, Task& task);
bool capture_record(CUevent_st& event, CUstream_st& stream);
/// cudaErrorNotReady if neither is in a capture: then it is to be waited for.
cudaError_t capture_wait(CUstream_st& stream, const CUevent_st& event);
/// What a call returns that enqueues no work and concerns that stream: an error if it is in a capture, which is then
/// invalid.
cudaError_t refuse_if_captured(CUstream_st& stream);
/// What a call returns that may wait for the device: an error if the calling thread must not make it because of some
/// capture, which is then invalid.
cudaError_t refuse_while_capturing();
/// The mode of the calling thread is exchanged.
void exchange_capture_mode(cudaStreamCaptureMode* mode);

}  // namespace cuda_on_cpu
