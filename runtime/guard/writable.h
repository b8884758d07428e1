// Memory that a plugin hands over for the host to write to.
#pragma once

#include <cstdint>

namespace tessera::host {

/// Whether all of those bytes are mapped for reading and writing. Reads /proc/self/maps, which takes some 100 us, and
/// touches none of them; true where that file cannot be read. [any-thread]
bool is_writable(const void* pointer, uint64_t num_bytes);

}  // namespace tessera::host
