// The bytes of a buffer in an arena.
#pragma once

#include "program/program.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// Every buffer starts on a multiple of this many bytes.
inline constexpr uint64_t kBufferAlignment = 256;

/// Bytes of a buffer in an arena, rounded up to kBufferAlignment. Throws INVALID_ARGUMENT for a buffer that no memory
/// can hold.
inline uint64_t footprint_bytes(const Buffer& buffer, uint64_t guard_bytes) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 48;
  if (buffer.num_elements > kMaxElements)
    throw Error(TSR_E_INVALID_ARGUMENT, "buffer " + buffer.name + " has " + std::to_string(buffer.num_elements) +
                                            " elements; the limit is " + std::to_string(kMaxElements));
  return (buffer.num_bytes() + guard_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace tessera::host
