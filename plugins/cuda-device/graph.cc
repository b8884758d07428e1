// CUDA graphs. What makes them more than a call of the runtime is host functions: CUDA is given a pointer for each,
// which must live as long as the graph, and the failure of one must fail the launch it belongs to. So a graph owns its
// calls, and every launch that is under way has an entry with its ticket; a function that runs belongs to the oldest
// entry, since launches of one graph never overlap.
#include "cuda-device/graph.h"

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {

void GraphCallbacks::add(cudaStream_t stream, tsr_host_function function, void* user) {
  callbacks_.push_back({this, function, user});
  const cudaError_t error = cudaLaunchHostFunc(stream, &GraphCallbacks::run, &callbacks_.back());
  if (error != cudaSuccess) callbacks_.pop_back();
  check(error, "cudaLaunchHostFunc in a capture");
}

void GraphCallbacks::begin_launch(const Work& work) {
  const std::lock_guard lock(mutex_);
  launches_.push_back({work, callbacks_.size()});
  in_flight_.submit(callbacks_.size());
}

void GraphCallbacks::cancel_launch() {
  const std::lock_guard lock(mutex_);
  launches_.pop_back();
  in_flight_.cancel(callbacks_.size());
}

void CUDART_CB GraphCallbacks::run(void* argument) noexcept {
  const auto& call = *static_cast<const Call*>(argument);
  GraphCallbacks& owner = *call.owner;
  owner.in_flight_.begin();
  owner.errors_.run(owner.current(), call.function, call.user);
  owner.end_run();
  owner.in_flight_.end();
}

// The oldest launch: later ones start when it has ended.
const Work& GraphCallbacks::current() {
  const std::lock_guard lock(mutex_);
  return launches_.front().work;
}

void GraphCallbacks::end_run() {
  const std::lock_guard lock(mutex_);
  if (--launches_.front().num_left == 0) launches_.pop_front();
}

Graph::Graph(const Context& context, cudaGraph_t graph, std::unique_ptr<GraphCallbacks> calls, cudaStream_t stream)
    : context_(context), callbacks_(std::move(calls)) {
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
