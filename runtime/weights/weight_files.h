// Which files of a Hugging Face folder hold its weights, and what ranks compare of them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tessera::host {

/// The files that hold a folder's weights; none when it has no weights.
struct WeightFiles {
  std::vector<std::string> paths;            ///< `model.safetensors`, or without it those of its sharded index, sorted
  std::map<std::string, std::string> index;  ///< of sharded weights: the file's name for each tensor's name
};

/// Throws UNSUPPORTED for a folder that holds weights only in another format or under other names, which else would
/// silently train from random values, and INVALID_ARGUMENT for a malformed index. A dangling link is returned as a
/// file; opening it reports the error.
WeightFiles find_weight_files(const std::string& folder);

/// Whether a file of that name in a model's folder is taken for weights, of a format that is read or of another.
bool looks_like_weights(const std::string& name);

/// What ranks compare so that all start from equal values: for each file a line with its name, its size, the hash of
/// its header, and a hash of its tensors: of all bytes when the folder has at most 64 MiB of weights, else of both ends
/// of each tensor and of blocks spread over the file. Throws what opening the files throws.
std::vector<std::string> weight_fingerprints(const std::string& folder);

}  // namespace tessera::host
