// Graphs: work of streams remembered once and run again with one call.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <mutex>

#include "cuda-device/calls_in_flight.h"
#include "cuda-device/error_tracker.h"

namespace tessera::cuda {

/// The host functions in one graph. CUDA runs each once per launch; launches of a graph run one after another.
class GraphCallbacks {
 public:
  explicit GraphCallbacks(ErrorTracker& errors) : errors_(errors) {}
  ~GraphCallbacks() { in_flight_.wait(); }
  GraphCallbacks(const GraphCallbacks&) = delete;
  GraphCallbacks& operator=(const GraphCallbacks&) = delete;

  /// Puts the function into the graph that `stream` is captured for.
  void add(cudaStream_t stream, tsr_host_function function, void* user);
  bool empty() const { return callbacks_.empty(); }
  /// The graph is about to be launched as `work`, whose failure is that of any of its functions.
  void begin_launch(const Work& work);
  /// CUDA refused the launch that was begun last.
  void cancel_launch();

 private:
  struct Call {
    GraphCallbacks* owner = nullptr;
    tsr_host_function function = nullptr;
    void* user = nullptr;
  };
  struct Launch {
    Work work;
    size_t num_left = 0;  // functions that have not run
  };

  static void CUDART_CB run(void* call) noexcept;
  const Work& current();
  void end_run();

  ErrorTracker& errors_;
  std::deque<Call> callbacks_;  // they do not move
  CallsInFlight in_flight_;
  std::mutex mutex_;
  std::deque<Launch> launches_;  // under mutex_: those with functions left, oldest first; they do not move
};

/// A graph that can be launched.
class Graph {
 public:
  /// Takes over `graph`, whatever happens; `stream` uploads it.
  Graph(const Context& context, cudaGraph_t graph, std::unique_ptr<GraphCallbacks> calls, cudaStream_t stream);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  cudaGraphExec_t handle() const { return exec_; }
  GraphCallbacks& callbacks() { return *callbacks_; }

 private:
  const Context& context_;
  cudaGraphExec_t exec_ = nullptr;
  std::unique_ptr<GraphCallbacks> callbacks_;
};

}  // namespace tessera::cuda
