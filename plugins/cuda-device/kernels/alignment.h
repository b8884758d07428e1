// Where operands start. The host's buffers start at multiples of 256 bytes, and nearly all operands with them; all that
// is promised is a multiple of 4.
#pragma once

#include <cstdint>

#include "tessera/operands.hpp"

namespace tessera::cuda {

inline constexpr uint64_t kBufferAlignment = 256;
inline constexpr uint64_t kMinAlignment = 4;

inline bool starts_at_multiple(const void* pointer, uint64_t num_bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % num_bytes == 0;
}

/// `pointer` or the next multiple of 256 bytes.
inline void* align_up(void* pointer) {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(pointer) + kBufferAlignment - 1) / kBufferAlignment *
                                 kBufferAlignment);
}

/// A workspace that holds `num_elements` from the next multiple of 256 bytes on, wherever it is bound.
inline tsr_slot_spec aligned_workspace(uint32_t index, uint64_t num_elements, tsr_dtype dtype) {
  return op::workspace(index, num_elements + kBufferAlignment / TSR_NUM_BYTES(dtype, 1), dtype);
}

}  // namespace tessera::cuda
