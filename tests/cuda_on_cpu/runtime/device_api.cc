// The devices, as the CUDA runtime declares them.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "failure.h"
#include "kernel.h"
#include "memory.h"

namespace {

thread_local int current_device = 0;

int num_devices() {
  const char* value = std::getenv("CUDA_ON_CPU_DEVICES");
  return value ? std::atoi(value) : 1;
}

bool is_device(int device) {
  return device >= 0 && device < num_devices();
}

}  // namespace

using cuda_on_cpu::report;

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = num_devices();
  return report(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return report(cudaErrorInvalidDevice);
  current_device = device;
  return report(cuda_on_cpu::device_failure());
}
cudaError_t cudaGetDevice(int* device) {
  if (!is_device(current_device)) return report(cudaErrorNoDevice);
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
  cuda_on_cpu::forget_failure();
  return cudaSuccess;
}

// Few multiprocessors, so that kernels which fill the device once have more blocks of work than blocks.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return report(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "CPU emulation of sm_90");
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = cuda_on_cpu::kDeviceBytes;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = static_cast<int>(cuda_on_cpu::kMaxBlockThreads);
  properties->sharedMemPerBlock = cuda_on_cpu::kSharedBytes;
  properties->sharedMemPerBlockOptin = cuda_on_cpu::kMaxSharedBytes;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->reservedSharedMemPerBlock = 1 << 10;
  properties->unifiedAddressing = 1;
  properties->pciBusID = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!is_device(device)) return report(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
