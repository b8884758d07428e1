// CUDA graphs. What makes them more than a call of the runtime is host functions: CUDA is given a pointer for each,
// which must live as long as the graph, and the failure of one must fail the launch it belongs to. So a graph owns its
// calls, and every launch that is under way has an entry with its ticket; a function that runs belongs to the oldest
// entry, since launches of one graph never overlap.
#include "cuda-device/graph.h"

#include <algorithm>

#include "cuda-device/cuda_error.h"
#include "cuda-device/stream.h"

namespace tessera::cuda {

void GraphCalls::add(cudaStream_t stream, tsr_host_function function, void* user) {
  calls_.push_back({this, function, user});
  const cudaError_t error = cudaLaunchHostFunc(stream, &GraphCalls::run, &calls_.back());
  if (error != cudaSuccess) calls_.pop_back();
  check(error, "cudaLaunchHostFunc in a capture");
}

void GraphCalls::begin_launch(const Work& work) {
  const std::lock_guard lock(mutex_);
  launches_.push_back({work, calls_.size()});
}

void GraphCalls::cancel_launch() {
  const std::lock_guard lock(mutex_);
  launches_.pop_back();
}

void CUDART_CB GraphCalls::run(void* argument) noexcept {
  const auto& call = *static_cast<const Call*>(argument);
  GraphCalls& owner = *call.owner;
  owner.failures_.run(owner.current(), call.function, call.user);
  owner.end_run();
}

// The oldest launch: later ones start when it has ended.
const Work& GraphCalls::current() {
  const std::lock_guard lock(mutex_);
  return launches_.front().work;
}

void GraphCalls::end_run() {
  const std::lock_guard lock(mutex_);
  if (--launches_.front().num_left == 0) launches_.pop_front();
}

Capture::Capture(Failures& failures, Stream& origin)
    : streams_{&origin}, calls_(std::make_unique<GraphCalls>(failures)) {}

void Capture::leave(const Stream& stream) {
  std::erase(streams_, &stream);
}

// All streams of the capture are told, also those that joined by an event: the next event they record is an ordinary
// one.
std::unique_ptr<GraphCalls> Capture::close() {
  is_open_ = false;
  for (Stream* stream : streams_)
    stream->leave_capture();
  streams_.clear();
  return std::move(calls_);
}

Graph::Graph(const Context& context, cudaGraph_t graph, std::unique_ptr<GraphCalls> calls, cudaStream_t stream)
    : context_(context), calls_(std::move(calls)) {
  // Each node with the priority of the stream it was captured on, not of the one the graph is launched on.
  const cudaError_t error = cudaGraphInstantiate(&exec_, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  check(error, "cudaGraphInstantiate");
  const cudaError_t upload_error = cudaGraphUpload(exec_, stream);
  if (upload_error != cudaSuccess) cudaGraphExecDestroy(exec_);
  check(upload_error, "cudaGraphUpload");
}

Graph::~Graph() {
  context_.try_make_current();
  cudaGraphExecDestroy(exec_);
}

}  // namespace tessera::cuda
