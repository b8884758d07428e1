// Finds a folder's weights, and what ranks compare of them (decision 0022). Large weights are not hashed whole, which
// would cost a read of gigabytes on every rank at every start. A header, both ends of each tensor and 256 blocks are
// enough to tell checkpoints apart; one changed number in the middle of a file is not found.
//
// Other formats (pytorch_model.bin, .gguf) are refused, not ignored: a folder with only those would train from random
// values. The index of sharded weights comes from elsewhere and names files that are opened, so only plain names beside
// the index are accepted: no slash, no "..".

#include "weights/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/sha256.h"
#include "base/strict_json.h"
#include "model/architectures.h"
#include "tessera/error.hpp"
#include "weights/safetensors.h"
#include "weights/sample_blocks.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWholeFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr uint64_t kTensorEndBytes = 4096;
constexpr std::size_t kShownDigits = 16;
constexpr uint64_t kMaxIndexBytes = 100'000'000;
constexpr int kMaxIndexDepth = 16;

/// The file's name for each tensor's name.
std::map<std::string, std::string> read_index(const std::string& path) {
  // Only the map is read: `metadata.total_size` is a number in some files, a string in others, and wrong in a few.
  const nlohmann::json index = parse_strict_json(read_text_file(path, kMaxIndexBytes), path, kMaxIndexDepth);
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty())
    throw Error(TSR_E_INVALID_ARGUMENT, concat(path, " has no \"weight_map\" that names files"));
  std::map<std::string, std::string> files;
  for (const auto& item : found->items()) {
    const std::string file = item.value().is_string() ? item.value().get<std::string>() : std::string();
    if (file.empty() || file == "." || file == ".." || file.find_first_of(std::string_view("/\0", 2)) != file.npos)
      throw Error(TSR_E_INVALID_ARGUMENT, concat(path, ": tensor ", item.key(), " is in ", item.value().dump(),
                                                 ", which is not a plain file name"));
    files[item.key()] = file;
  }
  return files;
}

void refuse_foreign_weights(const std::string& folder) {
  std::error_code why;
  std::set<std::string> names;
  for (fs::directory_iterator entry(folder, why), end; !why && entry != end; entry.increment(why))
    names.insert(entry->path().filename().string());
  if (why) throw Error(TSR_E_UNAVAILABLE, concat("cannot list the folder ", folder, ": ", why.message()));
  const auto foreign = std::ranges::find_if(names, looks_like_weights);
  if (foreign == names.end()) return;
  if (names.contains("index.json") && foreign->starts_with("rank-"))
    throw Error(TSR_E_UNSUPPORTED,
                concat(folder, " is a checkpoint; give --model the model that was trained, with ", "--init-from ",
                       folder, " to start from these parameters or --resume ", folder, " to continue that run"));
  throw Error(
      TSR_E_UNSUPPORTED,
      concat(folder, " holds ", *foreign, " but neither ", kWholeFile, " nor ", kIndexFile,
             "; save the model as safetensors, or give a folder without that file to start from random values"));
}

/// Bytes [begin, end) of the file.
void add_bytes(Sha256& hash, const ReadOnlyFile& file, uint64_t begin, uint64_t end) {
  std::vector<std::byte> block;
  for (; begin < end; begin += block.size()) {
    block.resize(std::min(kSampledBlockBytes, end - begin));
    file.read(begin, block);
    hash.add(block);
  }
}

/// `num_blocks`: of the sample; 0: all bytes are hashed.
std::string hash_of_tensors(const SafetensorsFile& weights, uint64_t num_blocks) {
  const ReadOnlyFile& file = weights.file();
  const uint64_t begin = weights.data_begin(), end = file.num_bytes();
  Sha256 hash;
  if (num_blocks == 0) {
    add_bytes(hash, file, begin, end);
    return hash.hex();
  }
  for (const auto& [name, tensor] : weights.header().tensors) {
    const uint64_t first = begin + tensor.data_offset, last = first + tensor.num_bytes;
    const uint64_t num_bytes = std::min(kTensorEndBytes, tensor.num_bytes);
    add_bytes(hash, file, first, first + num_bytes);
    add_bytes(hash, file, last - num_bytes, last);
  }
  for (const uint64_t at : sample_blocks(end - begin, kSampledBlockBytes, num_blocks))
    add_bytes(hash, file, begin + at, std::min(end, begin + at + kSampledBlockBytes));
  return hash.hex();
}

std::string fingerprint(const SafetensorsFile& weights, uint64_t num_blocks) {
  Sha256 header;
  add_bytes(header, weights.file(), 0, weights.data_begin());
  return concat(fs::path(weights.path()).filename().string(), ", ", weights.file().num_bytes(), " bytes, header ",
                header.hex().substr(0, kShownDigits), ", values ",
                hash_of_tensors(weights, num_blocks).substr(0, kShownDigits));
}

}  // namespace

WeightFiles find_weight_files(const std::string& folder) {
  const fs::path root(folder);
  if (const std::string whole = (root / kWholeFile).string(); name_is_there(whole)) return {{whole}, {}};
  const std::string index = (root / kIndexFile).string();
  if (!name_is_there(index)) {
    refuse_foreign_weights(folder);
    return {};
  }
  WeightFiles files{{}, read_index(index)};
  std::set<std::string> names;
  for (const auto& entry : files.index)
    names.insert(entry.second);
  for (const std::string& name : names)
    files.paths.push_back((root / name).string());
  return files;
}

// Includes other formats, and downloads that were not finished.
bool looks_like_weights(const std::string& name) {
  constexpr std::string_view kBegins[] = {kWholeFile, "pytorch_model", "tf_model", "flax_model"};
  constexpr std::string_view kEnds[] = {".safetensors", ".pt",  ".pth", ".ckpt", ".gguf",   ".ggml",
                                        ".onnx",        ".npz", ".ot",  ".h5",   ".msgpack"};
  const auto begins = [&](std::string_view begin) { return name.starts_with(begin); };
  return std::ranges::any_of(kBegins, begins) || std::ranges::any_of(foreign_weight_names(), begins) ||
         std::ranges::any_of(kEnds, [&](auto end) { return name.ends_with(end); });
}

std::vector<std::string> weight_fingerprints(const std::string& folder) {
  std::vector<SafetensorsFile> files;
  uint64_t num_bytes = 0;
  for (const std::string& path : find_weight_files(folder).paths)
    num_bytes += files.emplace_back(path).file().num_bytes();
  std::vector<std::string> fingerprints;
  // A share of the blocks for each file, and at least its first and last.
  const uint64_t num_blocks = num_bytes <= kMaxWholeBytes ? 0 : 2 + kSampledBlocks / files.size();
  for (const SafetensorsFile& file : files)
    fingerprints.push_back(fingerprint(file, num_blocks));
  return fingerprints;
}

}  // namespace tessera::host
