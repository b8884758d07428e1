// The host functions of a stream: holds what CUDA has a pointer to until the function has run.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <mutex>
#include <vector>

#include "cuda-device/calls_in_flight.h"
#include "cuda-device/error_tracker.h"

namespace tessera::cuda {

class HostCallbacks {
 public:
  explicit HostCallbacks(ErrorTracker& errors) : errors_(errors) {}
  /// The stream's work is done. Functions that CUDA dropped, as it does once the device has failed, are forgotten.
  ~HostCallbacks() { in_flight_.wait(); }
  HostCallbacks(const HostCallbacks&) = delete;
  HostCallbacks& operator=(const HostCallbacks&) = delete;

  /// Enqueues the function after the work on `stream`. [any-thread]
  void enqueue(cudaStream_t stream, tsr_host_function function, void* user, const Work& work);

 private:
  struct Call {
    HostCallbacks* owner = nullptr;
    tsr_host_function function = nullptr;
    void* user = nullptr;
    Work work;
  };

  Call* take();
  void give_back(Call* call);
  static void CUDART_CB run(void* call) noexcept;

  ErrorTracker& errors_;
  CallsInFlight in_flight_;
  std::mutex mutex_;
  // Under mutex_. A deque: calls do not move. Those that have run are used again.
  std::deque<Call> callbacks_;
  std::vector<Call*> free_;
};

}  // namespace tessera::cuda
