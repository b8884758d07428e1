// What cudaStream_t and cudaEvent_t point to.
#pragma once

#include <memory>

#include "capture.h"
#include "worker.h"

struct CUstream_st {
  int device = 0;
  cuda_on_cpu::CapturePoint captured;
  cuda_on_cpu::Worker worker;
};

struct CUevent_st {
  cuda_on_cpu::CapturePoint captured;
  bool has_time = true;
  std::shared_ptr<cuda_on_cpu::Mark> mark;  // of the last record; null: there was none, or it is captured
};

namespace cuda_on_cpu {

/// The stream, or the default one for null, which does not wait for others here.
CUstream_st& resolve(cudaStream_t stream);
/// For each call that uses the device: the error it returns if the device failed, or in a host function.
cudaError_t check_usable();
/// Work of the host: on one thread for all streams, as the driver may do it, and where CUDA must not be called.
void run_host_function(const Task& function);

}  // namespace cuda_on_cpu
