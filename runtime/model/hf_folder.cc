#include "model/hf_folder.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <set>

#include "model/element_conversion.h"
#include "model/hf_index.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "transformer.";
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kTokenEmbedding = "wte.weight";
constexpr const char* kWholeFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::size_t kElementsPerCompare = std::size_t{1} << 16;

std::string_view without_prefix(std::string_view name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

// "h.<digits>.attn.bias" and "h.<digits>.attn.masked_bias": constants that old versions of transformers saved.
bool is_mask_buffer(std::string_view name) {
  if (!name.starts_with("h.")) return false;
  const std::size_t end = name.find_first_not_of("0123456789", 2);
  if (end == 2 || end == std::string_view::npos) return false;
  const std::string_view rest = name.substr(end);
  return rest == ".attn.bias" || rest == ".attn.masked_bias";
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<uint64_t> shape_of(const Parameter& parameter) {
  const std::vector<int64_t> shape = parameter.shape();
  return {shape.begin(), shape.end()};
}

// The index and the files it names must agree in both directions.
void check_index(const std::map<std::string, std::string>& index, std::span<const SafetensorsFile> files,
                 const fs::path& folder) {
  std::map<std::string, std::string> found;
  for (const SafetensorsFile& file : files) {
    const std::string name = fs::path(file.path()).filename().string();
    for (const auto& entry : file.header().tensors) {
      const auto place = index.find(entry.first);
      if (place == index.end() || place->second != name) {
        throw Error(TSR_E_INVALID_ARGUMENT, concat(file.path(), " holds tensor ", entry.first, ", which ", kIndexFile,
                                                   " does not place there"));
      }
      found[entry.first] = name;
    }
  }
  for (const auto& entry : index) {
    if (found.contains(entry.first)) continue;
    throw Error(TSR_E_INVALID_ARGUMENT, concat(kIndexFile, " places tensor ", entry.first, " in ",
                                               (folder / entry.second).string(), ", which does not hold it"));
  }
}

}  // namespace

bool has_weights(const std::string& folder) {
  if (is_file(fs::path(folder) / kWholeFile) || is_file(fs::path(folder) / kIndexFile)) return true;
  for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"}) {
    if (!is_file(fs::path(folder) / other)) continue;
    throw Error(TSR_E_UNSUPPORTED,
                concat(folder, " holds ", other, " but no ", kWholeFile,
                       "; save the model as safetensors, or remove that file to start from scratch"));
  }
  return false;
}

HuggingFaceWeights::HuggingFaceWeights(const std::string& folder, std::span<const Parameter> parameters)
    : folder_(folder) {
  open_files(folder);
  for (const SafetensorsFile& file : files_)
    place_tensors(file);
  const bool is_tied = places_.contains(kTokenEmbedding);
  const auto head = is_tied ? places_.extract(std::string(kHead)) : decltype(places_)::node_type();
  check_parameters(parameters);
  if (!head.empty()) check_head(head.mapped());
}

void HuggingFaceWeights::open_files(const std::string& folder) {
  const fs::path root(folder);
  if (is_file(root / kWholeFile)) {
    files_.emplace_back((root / kWholeFile).string());
    return;
  }
  const auto index = read_safetensors_index((root / kIndexFile).string());
  std::set<std::string> names;
  for (const auto& entry : index)
    names.insert(entry.second);
  for (const std::string& name : names)
    files_.emplace_back((root / name).string());
  check_index(index, files_, root);
}

void HuggingFaceWeights::place_tensors(const SafetensorsFile& file) {
  for (const auto& entry : file.header().tensors) {
    const std::string& full_name = entry.first;
    const std::string_view name = without_prefix(full_name);
    if (is_mask_buffer(name)) continue;
    if (places_.emplace(std::string(name), Place{&file, full_name}).second) continue;
    throw Error(TSR_E_INVALID_ARGUMENT, concat(file.path(), ": tensor ", name, " is there with and without the prefix ",
                                               kPrefix, "; keep one"));
  }
}

void HuggingFaceWeights::check_parameters(std::span<const Parameter> parameters) const {
  std::set<std::string_view> extra;
  for (const auto& entry : places_)
    extra.insert(entry.first);
  for (const Parameter& parameter : parameters) {
    const auto found = places_.find(parameter.name);
    if (found == places_.end()) {
      throw Error(TSR_E_INVALID_ARGUMENT, concat(folder_, ": the weights have no tensor ", parameter.name, " ",
                                                 shape_text(shape_of(parameter)), ", which config.json calls for"));
    }
    const SafetensorsFile& file = *found->second.file;
    const SafetensorsTensor& tensor = file.tensor(found->second.name);
    if (tensor.shape != shape_of(parameter)) {
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat(file.path(), ": tensor ", tensor.name, " has shape ", shape_text(tensor.shape),
                         ", but config.json calls for ", shape_text(shape_of(parameter))));
    }
    if (!converts_to_float(tensor.dtype)) {
      throw Error(TSR_E_UNSUPPORTED, concat(file.path(), ": tensor ", tensor.name, " has elements of type ",
                                            tensor.dtype, "; parameters may be F32, F16, BF16 or F64"));
    }
    extra.erase(parameter.name);
  }
  if (extra.empty()) return;
  const Place& place = places_.find(*extra.begin())->second;
  throw Error(
      TSR_E_INVALID_ARGUMENT,
      concat(place.file->path(), ": tensor ", place.name, " ", shape_text(place.file->tensor(place.name).shape),
             " belongs to no parameter of the model that config.json describes (", extra.size(), " such tensors)"));
}

void HuggingFaceWeights::check_head(const Place& head) const {
  const SafetensorsTensor& tensor = head.file->tensor(head.name);
  const Place& tied = places_.find(kTokenEmbedding)->second;
  const SafetensorsTensor& embedding = tied.file->tensor(tied.name);
  bool equal = tensor.shape == embedding.shape;
  std::vector<float> ours(kElementsPerCompare), theirs(kElementsPerCompare);
  for (uint64_t i = 0; equal && i < embedding.num_elements; i += kElementsPerCompare) {
    const std::size_t num_elements = std::min<uint64_t>(kElementsPerCompare, embedding.num_elements - i);
    const auto a = std::span(ours).first(num_elements), b = std::span(theirs).first(num_elements);
    tied.file->read(tied.name, i, a);
    head.file->read(head.name, i, b);
    equal = std::equal(a.begin(), a.end(), b.begin(),
                       [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
  }
  if (equal) return;
  throw Error(TSR_E_UNSUPPORTED, concat(head.file->path(), ": tensor ", head.name, " ", shape_text(tensor.shape),
                                        " differs from ", tied.name, " ", shape_text(embedding.shape),
                                        "; a head of its own is not supported, only one tied to the token embedding"));
}

void HuggingFaceWeights::read(std::string_view parameter, uint64_t offset, std::span<float> out) const {
  const auto found = places_.find(parameter);
  if (found == places_.end()) throw Error(TSR_E_NOT_FOUND, concat(folder_, " has no tensor ", parameter));
  found->second.file->read(found->second.name, offset, out);
}

}  // namespace tessera
