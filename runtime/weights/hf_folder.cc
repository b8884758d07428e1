// Weights of a Hugging Face folder. Names and shapes must match the model one to one, so that nothing is left at random
// values and nothing that was trained is dropped unnoticed. Nothing is transposed: layers that are [in, out] in the
// file, as GPT-2's Conv1D, are [in, out] here.
//
// Values are read when a rank asks for its pieces, and only those are checked for NaN: no rank reads the whole model.

#include "weights/hf_folder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/concat.h"
#include "tessera/error.hpp"
#include "weights/element_conversion.h"
#include "weights/weight_files.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

// 256 KiB of floats from each tensor, which the cache of a core holds.
constexpr std::size_t kElementsPerCompare = std::size_t{1} << 16;

std::vector<uint64_t> shape_of(const Parameter& parameter) {
  const std::vector<int64_t> shape = parameter.shape();
  return {shape.begin(), shape.end()};
}

// Without a branch in the loop, which is what makes it fast.
bool all_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  bool any_not = false;
  for (const float value : values)
    any_not |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent;
  return !any_not;
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
        throw Error(TSR_E_INVALID_ARGUMENT, concat(file.path(), " holds tensor ", entry.first,
                                                   ", which the folder's index does not place there"));
      }
      found[entry.first] = name;
    }
  }
  for (const auto& entry : index) {
    if (found.contains(entry.first)) continue;
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the folder's index places tensor ", entry.first, " in ",
                                               (folder / entry.second).string(), ", which does not hold it"));
  }
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const std::string& folder, std::span<const Parameter> parameters,
                                       const TensorNames& names)
    : folder_(folder), names_(names) {
  open_files(folder);
  for (const SafetensorsFile& file : files_)
    place_tensors(file);
  const bool is_tied = places_.contains(names_.tied_to);
  // A saved head repeats the embedding. It must do so exactly, as the model has one tensor for both.
  const auto copy = is_tied ? places_.extract(std::string(names_.tied_copy)) : decltype(places_)::node_type();
  check_parameters(parameters);
  if (!copy.empty()) check_copy(copy.mapped());
}

void HuggingFaceWeights::open_files(const std::string& folder) {
  const WeightFiles found = find_weight_files(folder);
  if (found.paths.empty()) throw Error(TSR_E_NOT_FOUND, concat(folder, " holds no model.safetensors"));
  for (const std::string& path : found.paths)
    files_.emplace_back(path);
  if (!found.index.empty()) check_index(found.index, files_, folder);
}

void HuggingFaceWeights::place_tensors(const SafetensorsFile& file) {
  for (const auto& entry : file.header().tensors) {
    const std::string& full_name = entry.first;
    std::string_view name = full_name;
    if (name.starts_with(names_.prefix)) name.remove_prefix(names_.prefix.size());
    if (names_.is_skipped(name)) continue;
    if (places_.emplace(std::string(name), Place{&file, full_name}).second) continue;
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(file.path(), ": tensor ", name, " is present both with and without the prefix '", names_.prefix,
                       "'; keep one"));
  }
}

// "module.h.0.ln_1.weight": a state_dict that was saved from a wrapped model has such names.
std::string HuggingFaceWeights::wrapper_hint(const std::string& parameter) const {
  for (const auto& [name, place] : places_) {
    if (!name.ends_with("." + parameter)) continue;
    const std::string prefix = place.name.substr(0, place.name.size() - parameter.size());
    return concat(", but ", place.name, ": its names begin with ", prefix, ", which a wrapper adds ",
                  "(DistributedDataParallel module., torch.compile _orig_mod.); save the inner model, or remove the ",
                  "prefix from all names");
  }
  return "";
}

void HuggingFaceWeights::check_parameters(std::span<const Parameter> parameters) const {
  std::set<std::string_view> extra;
  for (const auto& entry : places_)
    extra.insert(entry.first);
  for (const Parameter& parameter : parameters) {
    const auto found = places_.find(parameter.name);
    if (found == places_.end()) {
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat(folder_, ": the weights have no tensor ", parameter.name, " ", shape_text(shape_of(parameter)),
                         ", which config.json calls for", wrapper_hint(parameter.name)));
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
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat(place.file->path(), ": tensor ", place.name, " ", shape_text(place.file->tensor(place.name).shape),
                     " belongs to no parameter of the model that config.json describes (",
                     counted(extra.size(), "such tensor"), ")"));
}

void HuggingFaceWeights::check_copy(const Place& copy) const {
  const SafetensorsTensor& tensor = copy.file->tensor(copy.name);
  const Place& tied = places_.find(names_.tied_to)->second;
  const SafetensorsTensor& original = tied.file->tensor(tied.name);
  bool equal = tensor.shape == original.shape;
  std::vector<float> ours(kElementsPerCompare), theirs(kElementsPerCompare);
  for (uint64_t i = 0; equal && i < original.num_elements; i += kElementsPerCompare) {
    const std::size_t num_elements = std::min<uint64_t>(kElementsPerCompare, original.num_elements - i);
    const auto a = std::span(ours).first(num_elements), b = std::span(theirs).first(num_elements);
    tied.file->read(tied.name, i, a);
    copy.file->read(copy.name, i, b);
    // As bits: a NaN equals itself, and 0 is not -0.
    equal = std::equal(a.begin(), a.end(), b.begin(),
                       [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
  }
  if (equal) return;
  throw Error(TSR_E_UNSUPPORTED, concat(copy.file->path(), ": tensor ", copy.name, " ", shape_text(tensor.shape),
                                        " differs from ", tied.name, " ", shape_text(original.shape),
                                        "; an untied head is not supported; tie it to the token embedding"));
}

void HuggingFaceWeights::read(std::string_view parameter, uint64_t offset, std::span<float> out) const {
  const auto found = places_.find(parameter);
  if (found == places_.end()) throw Error(TSR_E_NOT_FOUND, concat(folder_, " has no tensor ", parameter));
  const Place& place = found->second;
  place.file->read(place.name, offset, out);
  // The element is searched only when there is one.
  if (all_finite(out)) return;
  const auto bad = std::ranges::find_if(out, [](float value) { return !std::isfinite(value); });
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat(place.file->path(), ": element ", offset + static_cast<uint64_t>(bad - out.begin()), " of tensor ",
                     place.name, " ", shape_text(place.file->tensor(place.name).shape), " is ", *bad,
                     "; use an intact copy of the model"));
}

}  // namespace tessera::host
