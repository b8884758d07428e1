// Resident memory of this process.
#pragma once

#include <cstdint>

namespace tessera {

/// Bytes, over the life of the process and all its threads. Throws UNAVAILABLE without /proc. [any-thread]
int64_t peak_resident_bytes();
/// The same, now.
int64_t resident_bytes();

}  // namespace tessera
