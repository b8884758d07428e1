// Writes a file all or nothing (base/durable_file.h). Tensors with the widest elements come first, so that each is
// aligned to its element size. The header comes first in the file and has all offsets, so sizes are known before the
// first value is written, and the values may then come in any order.

#include "weights/safetensors_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "tessera/error.hpp"
#include "tessera/ranges.hpp"
#include "weights/element_conversion.h"

namespace tessera::host {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kDataAlignment = 8;  // readers map the file and view elements in place

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(TSR_E_UNAVAILABLE, concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

SafetensorsHeader lay_out(const std::string& path, std::span<const SafetensorsEntry> entries,
                          const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> sorted(entries.begin(), entries.end());
  std::sort(sorted.begin(), sorted.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    const uint64_t a_bytes = element_bytes(a.dtype), b_bytes = element_bytes(b.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
  });
  SafetensorsHeader header{.tensors = {}, .metadata = metadata};
  uint64_t offset = 0;
  for (const SafetensorsEntry& entry : sorted) {
    SafetensorsTensor tensor{entry.name, entry.dtype, entry.shape, 1, offset, element_bytes(entry.dtype)};
    bool fits = tensor.num_bytes != 0 && entry.name != "__metadata__";
    for (const uint64_t extent : entry.shape) {
      fits = fits && !__builtin_mul_overflow(tensor.num_elements, extent, &tensor.num_elements);
    }
    fits = fits && !__builtin_mul_overflow(tensor.num_bytes, tensor.num_elements, &tensor.num_bytes) &&
           !__builtin_add_overflow(offset, tensor.num_bytes, &offset);
    if (!fits || !header.tensors.emplace(entry.name, tensor).second) {
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat("cannot lay out ", path, ": tensor ", entry.name, " of ", entry.dtype, " ",
                         shape_text(entry.shape), " is listed twice, has an unknown dtype or is too large"));
    }
  }
  return header;
}

std::string header_text(const SafetensorsHeader& header, const std::string& path) {
  json object = json::object();
  if (!header.metadata.empty()) object["__metadata__"] = header.metadata;
  for (const auto& entry : header.tensors) {
    const SafetensorsTensor& tensor = entry.second;
    object[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.data_offset, tensor.data_offset + tensor.num_bytes}}};
  }
  std::string text;
  try {
    text = object.dump();
  } catch (const json::exception& e) {
    throw Error(TSR_E_INVALID_ARGUMENT, concat("cannot write the header of ", path, ": ", e.what()));
  }
  // The format allows blanks at the end of the header for this.
  text.resize(round_up<size_t>(text.size(), kDataAlignment), ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the header of ", path, " would have ", text.size(),
                                               " bytes; the format's limit is ", kMaxSafetensorsHeaderBytes));
  }
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::span<const SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), header_(lay_out(path, entries, metadata)), partial_(path) {
  const std::string text = header_text(header_, path);
  const uint64_t num_header_bytes = text.size();
  data_begin_ = kLengthBytes + num_header_bytes;
  uint64_t num_data_bytes = 0;
  for (const auto& entry : header_.tensors)
    num_data_bytes += entry.second.num_bytes;

  const int fd = partial_.descriptor();
  if (::ftruncate(fd, static_cast<off_t>(data_begin_ + num_data_bytes)) != 0) fail("make room in", partial_.path());
  file_ = std::make_unique<WriteBehind>(partial_.path(), fd);
  file_->write(0, std::as_bytes(std::span(&num_header_bytes, 1)));
  file_->write(kLengthBytes, std::as_bytes(std::span(text)));
}

const SafetensorsTensor& SafetensorsWriter::tensor(std::string_view name) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end())
    throw Error(TSR_E_NOT_FOUND, concat(path_, " was created without a tensor ", name));
  return found->second;
}

uint64_t SafetensorsWriter::position(std::string_view name) const {
  return data_begin_ + tensor(name).data_offset;
}

void SafetensorsWriter::write(std::string_view name, uint64_t offset, std::span<const std::byte> elements) {
  const SafetensorsTensor& tensor = this->tensor(name);
  const uint64_t num_element_bytes = element_bytes(tensor.dtype);
  if (offset > tensor.num_elements || elements.size() > tensor.num_bytes - offset * num_element_bytes ||
      elements.size() % num_element_bytes != 0) {
    throw Error(TSR_E_INVALID_ARGUMENT, concat(elements.size(), " bytes at element ", offset, " do not fit tensor ",
                                               name, " of ", tensor.dtype, " ", shape_text(tensor.shape)));
  }
  file_->write(data_begin_ + tensor.data_offset + offset * num_element_bytes, elements);
}

void SafetensorsWriter::commit() {
  file_->finish();  // what was written in the background has to be there before it can be made durable
  partial_.commit();
}

}  // namespace tessera::host
