// Measures the memory that a rank uses.
#pragma once

#include "exec/rank_runtime.h"

namespace tessera::host {

/// Bytes in use: on a device with its own memory, by all processes; else by this process.
struct MeasuredMemory {
  int64_t now_bytes = 0;
  int64_t peak_bytes = 0;    ///< for a device, the largest value measured so far
  int64_t before_bytes = 0;  ///< of the process, before the arena was allocated; 0 for a device
  int64_t total_bytes = 0;   ///< of the device; 0 for a process
};

class MemoryMeter {
 public:
  /// `process_before`: resident bytes of the process before the runtime was made.
  MemoryMeter(const RankRuntime& runtime, int64_t process_before);
  MeasuredMemory measure();

 private:
  const RankRuntime& runtime_;
  const int64_t process_before_;
  int64_t device_peak_ = 0;
};

}  // namespace tessera::host
