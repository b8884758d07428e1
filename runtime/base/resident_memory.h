// Resident memory of this process.
#pragma once

#include <cstdint>

namespace tessera::host {

/// Bytes of the whole process, with all its threads.
struct ResidentMemory {
  int64_t now_bytes = 0;
  int64_t peak_bytes = 0;  ///< over the life of the process
};

/// Throws UNAVAILABLE without /proc. [any-thread]
ResidentMemory resident_memory();

}  // namespace tessera::host
