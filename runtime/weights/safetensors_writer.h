// Writing safetensors files: all or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/durable_file.h"
#include "storage/write_behind.h"
#include "weights/safetensors_header.h"

namespace tessera::host {

/// Name, dtype and shape of a tensor that a file is to hold.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
};

/// Writes `path` in pieces, in any order but fastest in that of the file, into `path`.partial, which commit() makes
/// durable and renames to `path`. So a reader sees the old file or the new one, never a partial one. Without commit()
/// nothing is left. One writer for each path. [control-thread]
class SafetensorsWriter {
 public:
  /// Lays out the tensors (widest elements first, then by name) and writes the header. Throws INVALID_ARGUMENT for
  /// a duplicate or reserved name, an unknown dtype or a size beyond 64 bits, UNAVAILABLE with the system's reason.
  SafetensorsWriter(const std::string& path, std::span<const SafetensorsEntry> entries,
                    const std::map<std::string, std::string>& metadata);

  /// Puts `elements`, raw and little-endian in the tensor's dtype, at element `offset` of the tensor. What is never
  /// written is zero. Throws NOT_FOUND, INVALID_ARGUMENT (beyond the tensor), UNAVAILABLE.
  void write(std::string_view name, uint64_t offset, std::span<const std::byte> elements);

  /// Where the tensor begins in the file. Throws NOT_FOUND.
  uint64_t position(std::string_view name) const;

  /// Afterwards the file is complete at its path and survives a power cut. To be called once. Throws UNAVAILABLE.
  void commit();

 private:
  const SafetensorsTensor& tensor(std::string_view name) const;

  std::string path_;
  SafetensorsHeader header_;
  uint64_t data_begin_ = 0;
  PartialFile partial_;
  std::unique_ptr<WriteBehind> file_;  // last: it writes to partial_ until it is destroyed
};

}  // namespace tessera::host
