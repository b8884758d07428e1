// The header of a safetensors file: which tensors there are, and where.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

/// One tensor of a file: dense, row-major, little-endian.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", ...
  std::vector<uint64_t> shape;
  uint64_t num_elements = 0;
  uint64_t data_offset = 0;  ///< bytes from the end of the header
  uint64_t num_bytes = 0;    ///< num_elements * element_bytes(dtype)
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsTensor, std::less<>> tensors;  ///< by name
  std::map<std::string, std::string> metadata;                    ///< `__metadata__`
};

/// Longest header that is read or written.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// Parses the JSON text of a header that is followed by `num_data_bytes` of data. Strict: UTF-8, an object that starts
/// with '{', no duplicate or unknown keys, known dtypes, lengths that fit the shapes, and tensors that cover the data
/// from its first to its last byte without overlap or gap. Throws INVALID_ARGUMENT; `where` names the file.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t num_data_bytes, const std::string& where);

/// "[2, 3]", as the format and error messages print a shape.
std::string shape_text(const std::vector<uint64_t>& shape);

}  // namespace tessera::host
