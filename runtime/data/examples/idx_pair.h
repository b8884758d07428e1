// Which IDX files `--data` names.
#pragma once

#include <optional>
#include <string>

namespace tessera::host {

struct IdxPair {
  std::string images, labels;
};

/// The pair that `data` names:
///  - IMAGES:LABELS;
///  - a folder with one pair of MNIST's names (train-images-idx3-ubyte, train-labels-idx1-ubyte; the dash before idx
///    may be a dot, .gz may follow), or with several of which one is for training;
///  - a file of images whose name has "images" in it, with its labels beside it.
/// Nothing for any other file, which is CSV. Throws UsageError, naming the flag that has it, for a path that does not
/// exist, a folder without a pair, and images without labels.
std::optional<IdxPair> find_idx_pair(const std::string& data, const std::string& flag = "--data");

}  // namespace tessera::host
