// Memory for direct I/O.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "storage/block_sums.h"

namespace tessera::host {

struct FreeBlocks {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using BlockMemory = std::unique_ptr<std::byte, FreeBlocks>;

/// Aligned to kBlockBytes; `num_bytes` is a multiple of that. Throws std::bad_alloc.
inline BlockMemory allocate_blocks(uint64_t num_bytes) {
  BlockMemory memory(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, num_bytes)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace tessera::host
