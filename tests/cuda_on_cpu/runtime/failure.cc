#include "failure.h"

#include <atomic>
#include <cstdio>
#include <utility>

namespace cuda_on_cpu {
namespace {

std::atomic<cudaError_t> failure{cudaSuccess};
thread_local cudaError_t last_error = cudaSuccess;

struct Text {
  cudaError_t error;
  const char* name;
  const char* sentence;
};

constexpr Text kTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "capture was not initiated in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
};

const Text& text_of(cudaError_t error) {
  static constexpr Text kOther{cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
  for (const Text& text : kTexts)
    if (text.error == error) return text;
  return kOther;
}

}  // namespace

void fail_device(cudaError_t error, const std::string& what) {
  std::fprintf(stderr, "cuda_on_cpu: %s\n", what.c_str());
  cudaError_t none = cudaSuccess;
  failure.compare_exchange_strong(none, error);
}

cudaError_t device_failure() {
  return failure.load();
}

void forget_failure() {
  failure = cudaSuccess;
}

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace cuda_on_cpu

using cuda_on_cpu::text_of;

const char* cudaGetErrorName(cudaError_t error) {
  return text_of(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return text_of(error).sentence;
}
cudaError_t cudaGetLastError() {
  const cudaError_t failure = cuda_on_cpu::device_failure();
  const cudaError_t error = std::exchange(cuda_on_cpu::last_error, cudaSuccess);
  return failure != cudaSuccess ? failure : error;
}
