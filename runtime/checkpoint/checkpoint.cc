// Reading by blocks: an element's part is found in the index, its block of the part is read and checked, and kept for
// the next elements. A rank that reads its own elements in order reads each block once, and no block that holds nothing
// of it; blocks at the ends of its ranges hold up to 1 MiB of others' elements. Of a matrix that is split by columns
// here and was saved by rows, all blocks hold something of every rank.

#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <iterator>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "checkpoint/index_text.h"
#include "checkpoint/save_folder.h"
#include "storage/block_sums.h"
#include "tessera/error.hpp"
#include "weights/element_conversion.h"

namespace tessera::host {
namespace {

// The index of GPT-2 124M over 8 ranks of fsdp has 100 KB; a file far beyond any index is not read into memory.
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
// A row of a matrix that was saved by columns lies in one block of each part: with so many kept, each block is read
// once where the split had fewer ranks than this.
constexpr size_t kKeptBlocks = 16;
constexpr unsigned kMaxExpected = 64;  // runs of elements that one call announces

struct ByteRange {
  uint64_t begin, num_bytes;
};

/// Where the file has a block of a tensor.
ByteRange block_range(const SafetensorsFile& file, const SafetensorsTensor& tensor, uint64_t number) {
  const uint64_t begin = std::min(number * kChecksumBytes, tensor.num_bytes);
  return {file.data_begin() + tensor.data_offset + begin, std::min(kChecksumBytes, tensor.num_bytes - begin)};
}

CheckpointIndex read_index(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kIndexName);
  if (!name_is_there(path))
    throw Error(TSR_E_NOT_FOUND, concat(folder, " is not a checkpoint: it has no ", kIndexName));
  return parse_index(read_text_file(path, kMaxIndexBytes), path);
}

}  // namespace

Checkpoint::Checkpoint(const std::string& folder)
    : folder_(folder), index_(read_index(folder)), files_(index_.files.size()) {}

Checkpoint::~Checkpoint() = default;

void Checkpoint::fail(const std::string& what) const {
  if (!name_is_there(folder_)) throw Error(TSR_E_DATA_LOSS, removal_text(folder_));
  throw Error(TSR_E_DATA_LOSS, concat(what, "; restore the file, or take another checkpoint"));
}

const SafetensorsFile& Checkpoint::file(size_t number) const {
  std::unique_ptr<SafetensorsFile>& opened = files_[number];
  if (!opened) opened = open_file(number);
  return *opened;
}

/// What is checked once per file; the data of its tensors has its own checksums, compared block by block.
/// Size and header.
void Checkpoint::check_file(const SavedFile& saved) const {
  const std::string path = folder_ + "/" + saved.name;
  if (!name_is_there(path)) fail(concat(path, " is missing, which ", kIndexName, " names"));
  const ReadOnlyFile raw(path);
  if (raw.num_bytes() != saved.num_bytes)
    fail(concat(path, " has ", raw.num_bytes(), " bytes, and ", saved.num_bytes, " were written",
                raw.num_bytes() < saved.num_bytes ? ": it was cut" : ""));
  std::vector<std::byte> header(saved.header_bytes);
  raw.read(0, header);
  if (crc32c(header) != saved.header_crc32c)
    fail(concat(path, saved.header_bytes < saved.num_bytes ? ": the header" : "",
                " is not what was written: its crc32c differs"));
}

void Checkpoint::open_files() const {
  const std::lock_guard lock(mutex_);
  for (size_t number = 0; number < files_.size(); ++number)
    if (index_.files[number].name != kConfigName) file(number);
}

std::unique_ptr<SafetensorsFile> Checkpoint::open_file(size_t number) const {
  check_file(index_.files[number]);
  auto opened = std::make_unique<SafetensorsFile>(folder_ + "/" + index_.files[number].name);
  check_tensors(*opened, number);
  return opened;
}

std::string Checkpoint::config_path() const {
  const auto found = std::ranges::find(index_.files, kConfigName, &SavedFile::name);
  if (found == index_.files.end() || found->header_bytes != found->num_bytes)
    fail(concat(folder_, " has no ", kConfigName, " that ", kIndexName, " names"));
  check_file(*found);
  return folder_ + "/" + found->name;
}

/// The index may be from anybody, so what it says of a file need not be so.
void Checkpoint::check_tensors(const SafetensorsFile& opened, size_t number) const {
  for (const auto& [name, tensor] : index_.tensors)
    for (const TensorPart& part : tensor.parts) {
      if (part.file != number) continue;
      const auto found = opened.header().tensors.find(name);
      if (found == opened.header().tensors.end() || found->second.dtype != tensor.dtype ||
          found->second.num_elements != part.num_elements())
        fail(concat(opened.path(), " does not hold the ", part.num_elements(), " elements of ", name, " that ",
                    kIndexName, " says"));
    }
}

/// parse_index() has made sure that the parts hold each element once, so one of them has it.
Checkpoint::Place Checkpoint::place_of(const SavedTensor& tensor, uint64_t element) const {
  ElementPlace place;
  const TensorPart* part = nullptr;
  for (size_t i = 0; i < tensor.parts.size() && !place.num_elements; ++i)
    place = find_element((part = &tensor.parts[i])->ranges, element);
  const uint64_t size = element_bytes(tensor.dtype), at = place.position * size, within = at % kChecksumBytes;
  return {part, at / kChecksumBytes, within, std::min(place.num_elements, (kChecksumBytes - within) / size)};
}

void Checkpoint::expect(std::string_view name, uint64_t offset, uint64_t count) const {
  const auto found = index_.tensors.find(name);
  if (found == index_.tensors.end()) return;
  const uint64_t end = std::min(offset + count, found->second.num_elements());
  const std::lock_guard lock(mutex_);
  for (unsigned i = 0; i < kMaxExpected && offset < end; ++i) {
    const Place place = place_of(found->second, offset);
    offset += place.num_elements;
    if (keeps(*place.part, place.block)) continue;
    const SafetensorsFile& from = file(place.part->file);
    const auto [begin, num_bytes] = block_range(from, from.tensor(found->first), place.block);
    ahead_.expect(from.file(), begin, num_bytes);
  }
}

void Checkpoint::read_block(const std::string& name, const TensorPart& part, uint64_t number,
                            FileBytes& content) const {
  const SafetensorsFile& from = file(part.file);
  const SafetensorsTensor& tensor = from.tensor(name);
  const auto [position, num_bytes] = block_range(from, tensor, number);
  ahead_.read(from.file(), position, num_bytes, content);
  const uint64_t begin = number * kChecksumBytes;
  if (crc32c(content.bytes) != part.crc32c[number])
    fail(concat(from.path(), ": tensor ", name, ": bytes ", begin, " to ", begin + num_bytes,
                " are not what was written: their crc32c differs"));
}

/// Does not count as a use: what is announced must not change which blocks are kept.
bool Checkpoint::keeps(const TensorPart& part, uint64_t number) const {
  return std::ranges::any_of(blocks_, [&](const Block& kept) { return kept.part == &part && kept.number == number; });
}

const Checkpoint::Block& Checkpoint::block(const std::string& name, const TensorPart& part, uint64_t number) const {
  const auto found =
      std::ranges::find_if(blocks_, [&](const Block& kept) { return kept.part == &part && kept.number == number; });
  if (found != blocks_.end()) {
    blocks_.splice(blocks_.begin(), blocks_, found);
  } else {
    // Memory of the block that was not used for longest is taken over. Until the checksum has been compared the block
    // is not in the list, so one that was refused is never found there.
    std::list<Block> next;
    if (blocks_.size() < kKeptBlocks)
      next.emplace_back();
    else
      next.splice(next.begin(), blocks_, std::prev(blocks_.end()));
    read_block(name, part, number, next.front().content);
    next.front().part = &part;
    next.front().number = number;
    blocks_.splice(blocks_.begin(), next);
  }
  return blocks_.front();
}

/// Calls `take` for elements offset to offset + count, some at a time, with the number of those before.
void Checkpoint::read_in_pieces(std::string_view name, uint64_t offset, uint64_t count, const Take& take) const {
  const auto found = index_.tensors.find(name);
  if (found == index_.tensors.end()) throw Error(TSR_E_NOT_FOUND, concat(folder_, " has no tensor ", name));
  const SavedTensor& tensor = found->second;
  const uint64_t element = element_bytes(tensor.dtype), num_elements = tensor.num_elements();
  if (offset > num_elements || count > num_elements - offset)
    throw Error(TSR_E_INVALID_ARGUMENT, concat(folder_, ": elements ", offset, " to ", offset + count, " of ", name,
                                               " were requested, and it has ", num_elements));
  const std::lock_guard lock(mutex_);
  for (uint64_t before = 0; before < count;) {
    const Place place = place_of(tensor, offset + before);
    const Block& from = block(found->first, *place.part, place.block);
    const uint64_t own =
        std::min({place.num_elements, count - before, (from.content.bytes.size() - place.within) / element});
    take(from.content.bytes.subspan(place.within, own * element), before);
    before += own;
  }
}

void Checkpoint::read(std::string_view name, uint64_t offset, std::span<float> out) const {
  read_in_pieces(name, offset, out.size(), [&](std::span<const std::byte> elements, uint64_t before) {
    const std::string& dtype = index_.tensors.find(name)->second.dtype;
    to_float(dtype, elements, out.subspan(before, elements.size() / element_bytes(dtype)));
  });
}

void Checkpoint::read_bytes(std::string_view name, uint64_t offset, std::span<std::byte> out) const {
  const auto found = index_.tensors.find(name);
  const uint64_t element = found == index_.tensors.end() ? 1 : element_bytes(found->second.dtype);
  read_in_pieces(name, offset, out.size() / element, [&](std::span<const std::byte> elements, uint64_t before) {
    std::ranges::copy(elements, out.begin() + static_cast<ptrdiff_t>(before * element));
  });
}

/// Goes on after damage: a user who restores files wants to know of all of them.
std::vector<std::string> Checkpoint::verify() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> broken;
  FileBytes content;
  const auto attempt = [&](const auto& check) {
    try {
      check();
      return true;
    } catch (const Error& error) {
      broken.emplace_back(error.what());
      return false;
    }
  };
  std::vector<bool> opens;
  for (size_t number = 0; number < files_.size(); ++number)
    opens.push_back(
        attempt([&] { index_.files[number].name == kConfigName ? void(config_path()) : void(file(number)); }));
  for (const auto& [name, tensor] : index_.tensors)
    for (const TensorPart& part : tensor.parts)
      for (uint64_t number = 0; opens[part.file] && number < part.crc32c.size(); ++number)
        attempt([&, &name = name] { read_block(name, part, number, content); });
  return broken;
}

NamedArchitecture architecture_of(const Checkpoint& checkpoint) {
  const RunDescription& run = checkpoint.index().run;
  if (!run.has_config) return find_architecture(run.model);
  // Called for its check: the folder's config.json is read by its name below.
  checkpoint.config_path();
  return find_architecture(checkpoint.folder());
}

namespace {

[[noreturn]] void refuse_model(const Checkpoint& checkpoint, const std::string& difference) {
  throw Error(TSR_E_FAILED_PRECONDITION,
              concat(checkpoint.folder(), " is of another model: ", difference,
                     "; give the --model that it was saved from (", checkpoint.index().run.model, ")"));
}

}  // namespace

/// Facts before shapes: models that differ in heads or epsilon alone have the same shapes, and where shapes differ a
/// fact ("width of the model is 768 there and 1024 here") says why.
void require_model(const Checkpoint& checkpoint, std::span<const ModelFact> facts,
                   std::span<const Parameter> parameters) {
  const CheckpointIndex& index = checkpoint.index();
  for (const ModelFact& fact : facts) {
    const auto saved = std::ranges::find(index.run.model_facts, fact.name, [](const auto& pair) { return pair.first; });
    if (saved == index.run.model_facts.end())
      refuse_model(checkpoint, concat("it is of another architecture, which does not have the ", fact.name));
    if (saved->second != fact.value)
      refuse_model(checkpoint, concat(fact.name, " is ", saved->second, " there and ", fact.value, " here"));
  }
  for (const Parameter& parameter : parameters) {
    const auto saved = index.tensors.find(parameter.name);
    if (saved == index.tensors.end()) refuse_model(checkpoint, concat("it has no parameter ", parameter.name));
    const std::vector<int64_t> shape = parameter.shape();
    if (!std::ranges::equal(saved->second.shape, std::vector<uint64_t>(shape.begin(), shape.end())))
      refuse_model(checkpoint, concat(parameter.name, " has shape ", shape_text(saved->second.shape), " there and ",
                                      shape_text({shape.begin(), shape.end()}), " here"));
  }
}

}  // namespace tessera::host
