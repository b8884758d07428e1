// Memory of a device and pinned memory of the host, for arenas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "cuda-device/context.h"

namespace tessera::cuda {

/// What one device has allocated. [control-thread]
class Memory {
 public:
  explicit Memory(const Context& context) : context_(context) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// `num_bytes` of `memory` (TSR_MEMORY_*), 4096-aligned, contents undefined. TSR_MEMORY_HOST are ordinary anonymous
  /// pages, so that other processes may read them with process_vm_readv, pinned for every device; where CUDA refuses to
  /// pin those, memory of cudaHostAlloc. Throws RESOURCE_EXHAUSTED with the bytes that are free.
  void* allocate(uint32_t memory, uint64_t num_bytes);
  void release(void* pointer) noexcept;

 private:
  struct Block {
    uint32_t memory;  // TSR_MEMORY_*, or host memory of CUDA's own
    void* base;
    size_t num_bytes;  // from base
  };

  Block allocate_device(uint64_t num_bytes) const;
  Block allocate_host(uint64_t num_bytes) const;
  void free(const Block& block) const noexcept;

  const Context& context_;
  std::unordered_map<void*, Block> blocks_;
};

/// Bytes of the whole device, and of it free.
struct MemoryInfo {
  uint64_t total = 0;
  uint64_t free = 0;
};
MemoryInfo memory_info(const Context& context);

}  // namespace tessera::cuda
