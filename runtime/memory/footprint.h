// The bytes of a buffer in an arena.
#pragma once

#include "program/program.h"
#include "tessera/error.hpp"
#include "tessera/ranges.hpp"

namespace tessera::host {

/// Every buffer in memory starts on a multiple of this many bytes.
inline constexpr uint64_t kBufferAlignment = 256;

/// In files, which are read and written in blocks.
inline constexpr uint64_t kFileAlignment = 4096;

/// Bytes of a buffer in an arena, rounded up to the alignment of its memory. Throws INVALID_ARGUMENT for a buffer that
/// no memory can hold.
inline uint64_t footprint_bytes(const Buffer& buffer, uint64_t guard_bytes) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 48;
  if (buffer.num_elements > kMaxElements)
    throw Error(TSR_E_INVALID_ARGUMENT, "buffer " + buffer.name + " has " + std::to_string(buffer.num_elements) +
                                            " elements; the limit is " + std::to_string(kMaxElements));
  const uint64_t alignment = buffer.memory == TSR_MEMORY_FILE ? kFileAlignment : kBufferAlignment;
  return round_up(buffer.num_bytes() + guard_bytes, alignment);
}

}  // namespace tessera::host
