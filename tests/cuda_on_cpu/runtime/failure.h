// What becomes of the device when a kernel goes wrong: as with a CUDA context, it stays failed.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace cuda_on_cpu {

/// Work that has not begun is skipped from now on, and calls return `error`. `what` goes to stderr.
void fail_device(cudaError_t error, const std::string& what);
/// cudaSuccess until fail_device was called.
cudaError_t device_failure();
/// For tests that fail it on purpose.
void forget_failure();

/// Remembers an error for cudaGetLastError of the calling thread, and returns it.
cudaError_t report(cudaError_t error);

}  // namespace cuda_on_cpu
