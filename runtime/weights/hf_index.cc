// The index of sharded weights. It comes from elsewhere and names files that are opened, so only plain names beside the
// index are accepted: no slash, no "..".

#include "weights/hf_index.h"

#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kMaxFileBytes = 100'000'000;
constexpr int kMaxDepth = 16;

}  // namespace

std::map<std::string, std::string> read_safetensors_index(const std::string& path) {
  // Only the map is read: `metadata.total_size` is a number in some files, a string in others, and wrong in a few.
  const nlohmann::json index = parse_strict_json(read_text_file(path, kMaxFileBytes), path, kMaxDepth);
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty()) {
    throw Error(TSR_E_INVALID_ARGUMENT, concat(path, " has no \"weight_map\" that names files"));
  }
  std::map<std::string, std::string> files;
  for (const auto& item : found->items()) {
    const std::string file = item.value().is_string() ? item.value().get<std::string>() : std::string();
    if (file.empty() || file == "." || file == ".." || file.find_first_of(std::string_view("/\0", 2)) != file.npos) {
      throw Error(TSR_E_INVALID_ARGUMENT, concat(path, ": tensor ", item.key(), " is in ", item.value().dump(),
                                                 ", which is no plain file name"));
    }
    files[item.key()] = file;
  }
  return files;
}

}  // namespace tessera::host
