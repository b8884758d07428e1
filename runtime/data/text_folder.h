// A folder of text files as one sequence of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

struct TextFolder {
  std::vector<std::byte> bytes;
  uint64_t num_files = 0;    ///< that were read
  uint64_t num_skipped = 0;  ///< binary files; hidden ones are not even counted
};

/// Whether the bytes, the start of a file, look binary: a zero byte among the first 8192.
bool looks_binary(std::span<const std::byte> start);

/// The regular files in `path` and its sub-folders, sorted by path, one after the other. Left out: hidden files and
/// folders (names that start with a dot), binary files, and links to folders. The text is held in memory, so files that
/// change during the run do no harm. Throws INVALID_ARGUMENT for a folder without text or with more than 4 GiB of it,
/// NOT_FOUND or UNAVAILABLE for what cannot be read.
TextFolder read_text_folder(const std::string& path);

}  // namespace tessera
