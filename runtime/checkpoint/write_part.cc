// A tensor that a rank owns whole is written in its own shape. Of one that it owns a part of, the elements are written
// one after another, as a tensor of one dim; index.json says which they are. Memory: one piece.

#include "checkpoint/write_part.h"

#include <algorithm>
#include <cstdio>

#include "storage/block_sums.h"
#include "weights/element_conversion.h"
#include "weights/safetensors.h"
#include "weights/safetensors_writer.h"

namespace tessera::host {
namespace {

// A multiple of what a checksum covers, so that no checksum spans two pieces.
constexpr uint64_t kPieceBytes = 4 * kChecksumBytes;

/// Of the whole tensor.
std::vector<uint64_t> shape_of(const HeldTensor& tensor, std::span<const std::vector<uint64_t>> shapes) {
  if (tensor.parameter < 0) return {tensor.num_elements()};
  return shapes[static_cast<size_t>(tensor.parameter)];
}

SafetensorsEntry entry_of(const HeldTensor& tensor, const std::vector<uint64_t>& shape) {
  uint64_t whole = 1;
  for (const uint64_t extent : shape)
    whole *= extent;
  const uint64_t own = tensor.num_elements();
  return {tensor.name, safetensors_dtype(tensor.dtype), own == whole ? shape : std::vector<uint64_t>{own}};
}

/// Writes the elements and returns their checksums.
std::vector<uint32_t> write_tensor(SafetensorsWriter& file, const HeldTensor& tensor, const ReadState& read,
                                   std::span<std::byte> piece) {
  const uint64_t element = element_bytes(safetensors_dtype(tensor.dtype));
  const uint64_t num_elements = tensor.num_elements(), step = kPieceBytes / element;
  std::vector<uint32_t> sums;
  for (uint64_t begin = 0; begin < num_elements; begin += step) {
    const uint64_t end = std::min(begin + step, num_elements);
    const std::span<const std::byte> bytes = read(tensor, begin, end, piece.first((end - begin) * element));
    for (uint64_t at = 0; at < bytes.size(); at += kChecksumBytes)
      sums.push_back(crc32c(bytes.subspan(at, std::min(kChecksumBytes, bytes.size() - at))));
    file.write(tensor.name, begin, bytes);
  }
  return sums;
}

/// Those that this rank saves.
/// In the order of the file, which is then written from its begin to its end (decision 0042).
std::vector<const HeldTensor*> in_order_of(const SafetensorsWriter& file, std::span<const HeldTensor> tensors) {
  std::vector<const HeldTensor*> owned;
  for (const HeldTensor& tensor : tensors)
    if (tensor.is_owner) owned.push_back(&tensor);
  std::ranges::sort(owned, {}, [&](const HeldTensor* tensor) { return file.position(tensor->name); });
  return owned;
}

/// The header is read back from the finished file: its checksum is of what the file has, not of what was meant.
SavedFile describe(const std::string& path, const std::string& name) {
  const SafetensorsFile written(path);
  std::vector<std::byte> header(written.data_begin());
  written.file().read(0, header);
  return {name, written.file().num_bytes(), written.data_begin(), crc32c(header)};
}

}  // namespace

std::string rank_file_name(int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "rank-%05d.safetensors", rank);
  return name;
}

RankPart write_rank_part(const std::string& folder, int rank, std::span<const HeldTensor> tensors,
                         std::span<const std::vector<uint64_t>> shapes, const ReadState& read) {
  std::vector<SafetensorsEntry> entries;
  for (const HeldTensor& tensor : tensors)
    if (tensor.is_owner) entries.push_back(entry_of(tensor, shape_of(tensor, shapes)));
  RankPart part;
  if (entries.empty()) return part;
  const std::string name = rank_file_name(rank), path = folder + "/" + name;
  SafetensorsWriter file(path, entries, {{"format", "pt"}});
  std::vector<std::byte> piece(kPieceBytes);
  for (const HeldTensor* tensor : in_order_of(file, tensors)) {
    SavedTensor& saved = part.tensors[tensor->name];
    saved.dtype = safetensors_dtype(tensor->dtype);
    saved.shape = shape_of(*tensor, shapes);
    saved.version = tensor->state.version;
    saved.is_required = tensor->state.on_change == TSR_ON_CHANGE_REFUSE;
    saved.parts.push_back({0, strided(tensor->ranges), write_tensor(file, *tensor, read, piece)});
  }
  file.commit();
  part.file = describe(path, name);
  return part;
}

}  // namespace tessera::host
