// Copies between memory and the files of a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "storage/file_store.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// Reads any range of the store: one that begins within a block is read with the block. [any-thread]
void read_range(FileStore& store, uint64_t offset, std::span<std::byte> data, const std::string& label);
/// Writes any range of the store; the rest of its first and last block stays. Nothing else may use those blocks
/// meanwhile. [any-thread]
void write_range(FileStore& store, uint64_t offset, std::span<const std::byte> data, const std::string& label);

/// A copy from or to a file, as the work of a stream of the host. Borrows store and memory.
struct FileCopy {
  FileStore* store = nullptr;
  bool is_write = false;
  uint64_t offset = 0;  ///< in the store, bytes
  std::span<std::byte> memory;
  std::string label;  ///< what it is, for errors
  static tsr_status run(void* self, tsr_error* err) noexcept;
};

}  // namespace tessera::host
