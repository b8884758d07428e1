// Reading safetensors files: tensors by name, any range of them, as floats.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/read_only_file.h"
#include "weights/safetensors_header.h"

namespace tessera::host {

/// An open safetensors file with a checked header. Movable. Every const function is [any-thread].
class SafetensorsFile {
 public:
  /// Throws what ReadOnlyFile throws, and INVALID_ARGUMENT, naming the file, for a file that is not well formed.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const ReadOnlyFile& file() const { return file_; }
  const SafetensorsHeader& header() const { return header_; }
  /// Byte of the file where the tensors' data starts.
  uint64_t data_begin() const { return data_begin_; }
  /// Throws NOT_FOUND for a name that is not in the file.
  const SafetensorsTensor& tensor(std::string_view name) const;

  /// out[i] = element offset + i of the tensor, row-major, converted to float. F32, F16, BF16 and F64 only (else
  /// UNSUPPORTED). Throws INVALID_ARGUMENT for a range beyond the tensor.
  void read(std::string_view name, uint64_t offset, std::span<float> out) const;

 private:
  ReadOnlyFile file_;
  SafetensorsHeader header_;
  uint64_t data_begin_ = 0;
};

}  // namespace tessera::host
