// CUDA streams, and on the host the order of the work that may fail.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda-device/event.h"
#include "cuda-device/graph.h"
#include "cuda-device/host_callbacks.h"
#include "tessera/device.hpp"

namespace tessera::cuda {

inline constexpr std::string_view kStreamKind = "cuda.stream";

class Stream;

/// A capture, from its begin to its end: the streams in it, and what the graph will own.
class Capture {
 public:
  Capture(ErrorTracker& errors, Stream& origin);

  bool is_open() const { return is_open_; }
  bool begun_by(const Stream& stream) const { return streams_.front() == &stream; }
  void join(Stream& stream) { streams_.push_back(&stream); }
  void leave(const Stream& stream);
  GraphCallbacks& callbacks() { return *callbacks_; }
  /// Ends it; its streams take work as before. Returns what the graph is to own.
  std::unique_ptr<GraphCallbacks> close();

 private:
  bool is_open_ = true;
  std::vector<Stream*> streams_;
  std::unique_ptr<GraphCallbacks> callbacks_;
};

/// Work may be submitted from any thread. CUDA runs the host functions of all streams on one thread, so none may wait
/// for another. After a failure host functions are skipped; kernels and copies, which end by themselves, run on.
class Stream final : public DeviceStream {
 public:
  /// Streams for communication (names that start with "comm") have priority over others.
  Stream(const Context& context, ErrorTracker& errors, std::string_view name);
  ~Stream() override;  // waits for its work

  std::optional<tsr_error> synchronize(int64_t timeout_ms) override;
  void record(DeviceEvent& event) override;
  void wait(DeviceEvent& event) override;
  /// From and to memory of the device or pinned memory it does not block. Pageable memory may be used as soon as this
  /// returns, for which it may wait for the stream.
  void copy(void* dst, const void* src, uint64_t num_bytes) override;
  /// `dst`: memory of this device, of either kind.
  void fill(void* dst, uint8_t byte, uint64_t num_bytes) override;
  void host_function(tsr_host_function function, void* user) override;
  /// "cuda.stream": cudaStream_t.
  void* native_handle(std::string_view kind) noexcept override;

  cudaStream_t handle() const noexcept { return handle_; }
  /// `event` becomes the time at which the stream gets here. Throws FAILED_PRECONDITION in a capture. [issue-thread]
  void record_time(cudaEvent_t event);

  // tsr_device_capture. [issue-thread]
  void begin_capture();
  std::unique_ptr<Graph> end_capture();
  void launch(Graph& graph);

 private:
  friend class Capture;

  void leave_capture();
  Work next_work();
  Clock clock();

  const Context& context_;
  ErrorTracker& errors_;
  const std::string name_;
  Clock clock_;           // under mutex_, as is every submission whose place in the stream it knows
  const uint32_t index_;  // in clocks
  cudaStream_t handle_ = nullptr;
  HostCallbacks callbacks_;

  std::mutex mutex_;
  std::shared_ptr<Capture> capture_;  // under mutex_: that the stream is in
};

}  // namespace tessera::cuda
