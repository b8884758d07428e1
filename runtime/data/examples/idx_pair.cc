// MNIST is four files in a folder, and copies of it differ in the dash or dot before "idx" and in whether they are
// compressed; some folders hold both forms of each. A file is taken for IDX by its name or by its first bytes, so that
// one with a damaged start is not read as CSV.
//
//     data/mnist                                   train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz]
//     data/mnist/t10k-images.idx3-ubyte            t10k-labels.idx1-ubyte[.gz] beside it
//     a/images.bin:b/labels.bin                    these two

#include "data/examples/idx_pair.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "config/usage_error.h"
#include "data/examples/byte_stream.h"
#include "data/file_list.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExample = "train-images-idx3-ubyte and train-labels-idx1-ubyte";

std::string name_of(const std::string& path) {
  return fs::path(path).filename().string();
}

bool has(const std::string& name, std::string_view word) {
  return name.find(word) != name.npos;
}

bool begins_as_idx(const std::string& path) {
  ByteStream stream(path);
  std::array<std::byte, 2> start{std::byte{1}};
  return stream.read(start) == start.size() && start == std::array<std::byte, 2>{};
}

std::string without_gz(const std::string& path) {
  return path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
}

bool is_named_idx(const std::string& name) {
  return (has(name, "-idx") || has(name, ".idx")) && !without_gz(name).ends_with(".csv");
}

// The labels beside the images, compressed or not, whatever the images are; empty when there are none.
std::string labels_of(const std::string& images) {
  std::string name = without_gz(name_of(images));
  const auto images_at = name.find("images");
  if (images_at == name.npos) return "";
  name.replace(images_at, 6, "labels");
  if (const auto idx = name.find("idx"); idx != name.npos && idx + 3 < name.size()) name[idx + 3] = '1';
  const std::string path = (fs::path(images).parent_path() / name).string();
  for (const std::string& labels : {path, path + ".gz"})
    if (name_is_there(labels)) return labels;
  return "";
}

std::vector<IdxPair> pairs_in(const std::string& folder) {
  std::vector<IdxPair> pairs;
  for (const std::string& path : contents_of(folder).files) {
    // Of images that are there in both forms the plain one is read, which comes first.
    const bool is_known = !pairs.empty() && without_gz(pairs.back().images) == without_gz(path);
    if (is_known || !has(name_of(path), "images") || !has(name_of(path), "idx")) continue;
    if (std::string labels = labels_of(path); !labels.empty()) pairs.push_back({path, std::move(labels)});
  }
  return pairs;
}

IdxPair pair_in(const std::string& flag, const std::string& folder) {
  std::vector<IdxPair> pairs = pairs_in(folder);
  if (pairs.empty())
    throw UsageError(concat(flag, " ", folder, ": the folder has no pair of IDX files, such as ", kExample,
                            "; for CSV give the file itself"));
  if (pairs.size() > 1) std::erase_if(pairs, [](const IdxPair& pair) { return !has(name_of(pair.images), "train"); });
  if (pairs.size() == 1) return pairs.front();
  throw UsageError(concat(flag, " ", folder, ": the folder has several pairs of IDX files, ",
                          pairs.empty() ? "none" : "more than one",
                          " of them named train; give the file of the images"));
}

// Both parts must be there: a colon may also be part of a file's name.
std::optional<IdxPair> split_pair(const std::string& data) {
  for (auto colon = data.find(':'); colon != data.npos; colon = data.find(':', colon + 1)) {
    const IdxPair pair{data.substr(0, colon), data.substr(colon + 1)};
    if (name_is_there(pair.images) && name_is_there(pair.labels)) return pair;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_absent(const std::string& flag, const std::string& data) {
  if (is_pattern(data))
    throw UsageError(concat(flag, " ", data, ": patterns are for files of tokens; give one CSV file, or IDX files as ",
                            "FOLDER or IMAGES:LABELS (see docs/data.md)"));
  const auto colon = data.find(':');
  const std::string images = data.substr(0, colon);
  const bool is_pair = colon != data.npos && name_is_there(images);
  throw UsageError(concat(flag, " ", data, ": no ", is_pair ? "file " + data.substr(colon + 1) : "such file",
                          "; give a CSV file, or IDX files as FOLDER or IMAGES:LABELS (see docs/data.md)"));
}

}  // namespace

std::optional<IdxPair> find_idx_pair(const std::string& data, const std::string& flag) {
  if (!name_is_there(data)) {
    if (auto pair = split_pair(data)) return pair;
    refuse_absent(flag, data);
  }
  std::error_code unknown;
  if (fs::is_directory(data, unknown)) return pair_in(flag, data);
  if (!is_named_idx(name_of(data)) && !begins_as_idx(data)) return std::nullopt;
  std::string labels = labels_of(data);
  if (labels.empty())
    throw UsageError(concat(flag, " ", data, ": no labels were found beside these IDX images (names as in ", kExample,
                            "); give IMAGES:LABELS"));
  return IdxPair{data, std::move(labels)};
}

}  // namespace tessera::host
