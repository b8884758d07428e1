// What the CUDA runtime reports, as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "tessera/error.hpp"

namespace tessera::cuda {

/// The plugin's name, as its errors carry it.
inline constexpr std::string_view kName = "cuda-device";

/// RESOURCE_EXHAUSTED for cudaErrorMemoryAllocation, UNAVAILABLE when there is no device or driver, DATA_LOSS for those
/// after which CUDA asks for the end of the process ("any further CUDA work will return the same error", in
/// driver_types.h), else INTERNAL.
inline tsr_status status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return TSR_E_RESOURCE_EXHAUSTED;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
      return TSR_E_UNAVAILABLE;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
      return TSR_E_DATA_LOSS;
    default:
      return TSR_E_INTERNAL;
  }
}

/// Throws unless `error` is cudaSuccess; `what` is what was tried: "cudaMemcpyAsync of 4096 bytes". The runtime then
/// remembers the error no longer, unless it is one that ends all work on the device.
inline void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw Error(status_of(error), what + " failed: " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}
inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) check(error, std::string(what));
}

}  // namespace tessera::cuda
