// Which of the optional tables of a device a GPU has: all.
#include "cuda-device/device.h"
#include "tessera/device_table.hpp"

namespace tessera::cuda {

const void* Plugin::get_extension(std::string_view id) noexcept {
  if (id == TSR_DEVICE_CAPTURE) return &kDeviceCapture<Plugin, Stream>;
  if (id == TSR_DEVICE_SEMAPHORE) return &kDeviceSemaphore<Plugin, CudaDevice, Stream>;
  if (id == TSR_DEVICE_MEMORY_INFO) return &kDeviceMemoryInfo<Plugin, CudaDevice>;
  if (id == TSR_DEVICE_TIMESTAMPS) return &kDeviceTimestamps<Plugin, CudaDevice, Stream>;
  return nullptr;
}

}  // namespace tessera::cuda
