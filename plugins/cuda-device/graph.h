// Graphs: work of streams remembered once and run again with one call.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda-device/error_tracker.h"

namespace tessera::cuda {

class Stream;

/// The host functions in one graph. CUDA runs each once per launch; launches of a graph run one after another.
class GraphCalls {
 public:
  explicit GraphCalls(Failures& failures) : failures_(failures) {}
  GraphCalls(const GraphCalls&) = delete;
  GraphCalls& operator=(const GraphCalls&) = delete;

  /// Puts the function into the graph that `stream` is captured for.
  void add(cudaStream_t stream, tsr_host_function function, void* user);
  bool empty() const { return calls_.empty(); }
  /// The graph is about to be launched as `work`, whose failure is that of any of its functions.
  void begin_launch(const Work& work);
  /// CUDA did not take the launch that was begun last.
  void cancel_launch();

 private:
  struct Call {
    GraphCalls* owner = nullptr;
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

  Failures& failures_;
  std::deque<Call> calls_;  // they do not move
  std::mutex mutex_;
  std::deque<Launch> launches_;  // under mutex_: those with functions left, oldest first; they do not move
};

/// A capture, from its begin to its end: the streams in it, and what the graph will own.
class Capture {
 public:
  Capture(Failures& failures, Stream& origin);

  bool is_open() const { return is_open_; }
  bool begun_by(const Stream& stream) const { return streams_.front() == &stream; }
  void join(Stream& stream) { streams_.push_back(&stream); }
  void leave(const Stream& stream);
  GraphCalls& calls() { return *calls_; }
  /// Ends it; the streams in it are on their own again. Returns what the graph is to own.
  std::unique_ptr<GraphCalls> close();

 private:
  bool is_open_ = true;
  std::vector<Stream*> streams_;
  std::unique_ptr<GraphCalls> calls_;
};

/// A graph that can be launched.
class Graph {
 public:
  /// Takes over `graph`, whatever happens; `stream` uploads it.
  Graph(const Context& context, cudaGraph_t graph, std::unique_ptr<GraphCalls> calls, cudaStream_t stream);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  cudaGraphExec_t handle() const { return exec_; }
  GraphCalls& calls() { return *calls_; }

 private:
  const Context& context_;
  cudaGraphExec_t exec_ = nullptr;
  std::unique_ptr<GraphCalls> calls_;
};

}  // namespace tessera::cuda
