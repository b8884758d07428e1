// A device reports what all processes use, and no peak, so the peak is the largest value seen after a step. On a CPU
// the kernel reports current and peak memory of this process.

#include "train/meters/memory_meter.h"

#include <algorithm>

#include "base/resident_memory.h"

namespace tessera::host {

MemoryMeter::MemoryMeter(const RankRuntime& runtime, int64_t process_before)
    : runtime_(runtime), process_before_(process_before) {}

MeasuredMemory MemoryMeter::measure() {
  if (const auto device = runtime_.device_memory()) {
    const auto used = static_cast<int64_t>(device->used_bytes);
    device_peak_ = std::max(device_peak_, used);
    return {used, device_peak_, 0, static_cast<int64_t>(device->total_bytes)};
  }
  const ResidentMemory process = resident_memory();
  return {process.now_bytes, process.peak_bytes, process_before_, 0};
}

}  // namespace tessera::host
