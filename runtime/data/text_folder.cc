#include "data/text_folder.h"

#include <algorithm>
#include <filesystem>

#include "model/read_only_file.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytesLookedAt = 8192;
constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

std::vector<std::string> sorted_files(const fs::path& folder) {
  std::vector<std::string> files;
  try {
    for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator(); ++it) {
      const std::string name = it->path().filename().string();
      if (name.starts_with('.')) {
        it.disable_recursion_pending();
        continue;
      }
      std::error_code dangling_link;
      if (it->is_regular_file(dangling_link)) files.push_back(it->path().generic_string());
    }
  } catch (const fs::filesystem_error& e) {
    throw Error(TSR_E_UNAVAILABLE, concat("cannot list the folder ", folder.string(), ": ", e.code().message(), " at ",
                                          e.path1().string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

void append(TextFolder& text, const std::string& path, const std::string& folder) {
  const ReadOnlyFile file(path);
  const std::size_t num_before = text.bytes.size();
  if (file.num_bytes() > kMaxBytes - num_before) {
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the folder ", folder, " holds more than ", kMaxBytes,
                                               " bytes of text; give one file, which is not held in memory"));
  }
  std::vector<std::byte> start(std::min<uint64_t>(file.num_bytes(), kBytesLookedAt));
  file.read(0, start);
  if (looks_binary(start)) {
    ++text.num_skipped;
    return;
  }
  ++text.num_files;
  text.bytes.resize(num_before + file.num_bytes());
  file.read(0, std::span(text.bytes).subspan(num_before));
}

}  // namespace

bool looks_binary(std::span<const std::byte> start) {
  const auto looked_at = start.first(std::min(start.size(), kBytesLookedAt));
  return std::find(looked_at.begin(), looked_at.end(), std::byte{0}) != looked_at.end();
}

TextFolder read_text_folder(const std::string& path) {
  TextFolder text;
  for (const std::string& file : sorted_files(path))
    append(text, file, path);
  if (text.bytes.empty()) {
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("the folder ", path, " holds no text file (", text.num_skipped,
                       " binary files skipped); for token files give one file, not its folder"));
  }
  return text;
}

}  // namespace tessera
