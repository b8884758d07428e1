// Reads the text files of a folder into memory, one after the other without anything between them. Binary files among
// them (a zero byte near the start) are counted and skipped: source trees hold images and archives too.

#include "data/text_folder.h"

#include <algorithm>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "data/looks_like_text.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::size_t kBytesLookedAt = 8192;
constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

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

TextFolder read_text_folder(const std::string& path, const std::vector<std::string>& files) {
  TextFolder text;
  for (const std::string& file : files)
    append(text, file, path);
  if (text.bytes.empty()) {
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("the folder ", path, " holds no text file (", text.num_skipped,
                       " binary files skipped); give a folder of text, or of token files whose names end in .bin"));
  }
  return text;
}

}  // namespace tessera::host
