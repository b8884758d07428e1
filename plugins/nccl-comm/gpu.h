// What a communicator needs from CUDA: the GPU of a device of the host, and events on its streams.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "tessera/device.h"
#include "tessera/error.hpp"

namespace tessera::nccl_comm {

/// Throws unless `error` is cudaSuccess; `what` is the call.
void check(cudaError_t error, const char* what);

/// The GPU of an open device of the host, found by the address of its memory. [control-thread]
class Gpu {
 public:
  /// INVALID_ARGUMENT when the device's memory is not on a GPU.
  Gpu(const tsr_device_interface* api, tsr_device* device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const { return index_; }
  /// "0000:3B:00.0"
  const std::string& bus_id() const { return bus_id_; }
  /// A few bytes of its memory, which hold 0.
  void* scratch() const { return scratch_; }

 private:
  void identify();

  const tsr_device_interface* const api_;
  tsr_device* const device_;
  void* scratch_ = nullptr;
  int index_ = -1;
  std::string bus_id_;
};

/// Makes the GPU current in the calling thread. It is not restored: restoring a GPU never used would create a context
/// on it.
void make_current(int gpu);

/// Whether the stream is being captured into a graph.
bool is_captured(cudaStream_t stream);

/// An event of the current GPU's streams.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  void record(cudaStream_t stream);
  /// Whether all work before the last record is done.
  bool is_done() const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace tessera::nccl_comm
