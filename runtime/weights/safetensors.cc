// The safetensors format: 8 bytes of length (little-endian), a JSON header of that length, then the tensors' bytes.
//
//     | u64 n | {"wte.weight": {"dtype": "F32", "shape": [..], "data_offsets": [b, e]}, ...} | data |
//                                                               from the end of the header  ^
//
// The header is checked once, when the file is opened; after that any range of elements is one read. float32 goes
// straight into the caller's memory, other types through a buffer of 64 Ki elements.

#include "weights/safetensors.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/concat.h"
#include "tessera/error.hpp"
#include "weights/element_conversion.h"

namespace tessera::host {
namespace {

constexpr uint64_t kLengthBytes = 8;                            // the header's length comes before it
constexpr std::size_t kElementsPerRead = std::size_t{1} << 16;  // for types that are converted through a small buffer

/// What a clone without Git LFS has in place of a large file.
bool is_lfs_pointer(const ReadOnlyFile& file) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  std::string begin(std::min<uint64_t>(kBegin.size(), file.num_bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin == kBegin;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  uint64_t num_header_bytes = 0;
  if (file_.num_bytes() < kLengthBytes) {
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(path, " has ", file_.num_bytes(), " bytes, too few for a safetensors file"));
  }
  if (is_lfs_pointer(file_))
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(path, " is a pointer of Git LFS in place of the weights; get them with git lfs pull"));
  file_.read(0, std::as_writable_bytes(std::span(&num_header_bytes, 1)));
  // Before anything of that size is allocated.
  if (num_header_bytes > kMaxSafetensorsHeaderBytes || num_header_bytes > file_.num_bytes() - kLengthBytes) {
    throw Error(
        TSR_E_INVALID_ARGUMENT,
        concat(path, ": the header's length ", num_header_bytes, " is beyond the file's ", file_.num_bytes(),
               " bytes or the limit of ", kMaxSafetensorsHeaderBytes, "; was the file cut, or is it another format?"));
  }
  std::string text(num_header_bytes, '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  data_begin_ = kLengthBytes + num_header_bytes;
  header_ = parse_safetensors_header(text, file_.num_bytes() - data_begin_, path);
}

const SafetensorsTensor& SafetensorsFile::tensor(std::string_view name) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) throw Error(TSR_E_NOT_FOUND, concat(path(), " has no tensor ", name));
  return found->second;
}

void SafetensorsFile::read(std::string_view name, uint64_t offset, std::span<float> out) const {
  const SafetensorsTensor& source = tensor(name);
  if (offset > source.num_elements || out.size() > source.num_elements - offset) {
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(path(), ": elements ", offset, " to ", offset + out.size(), " of tensor ", name,
                       " were requested, and it has ", source.num_elements));
  }
  const uint64_t num_element_bytes = element_bytes(source.dtype);
  uint64_t position = data_begin_ + source.data_offset + offset * num_element_bytes;
  if (source.dtype == "F32") {
    file_.read(position, std::as_writable_bytes(out));
    return;
  }
  std::vector<std::byte> chunk(std::min(out.size(), kElementsPerRead) * num_element_bytes);
  while (!out.empty()) {
    const std::size_t num_elements = std::min(out.size(), kElementsPerRead);
    const auto elements = std::span(chunk).first(num_elements * num_element_bytes);
    file_.read(position, elements);
    to_float(source.dtype, elements, out.first(num_elements));
    position += elements.size();
    out = out.subspan(num_elements);
  }
}

}  // namespace tessera::host
