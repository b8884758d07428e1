// A folder of text files as one sequence of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::host {

struct TextFolder {
  std::vector<std::byte> bytes;
  uint64_t num_files = 0;    ///< that were read
  uint64_t num_skipped = 0;  ///< binary files
};

/// The text of `files`, which are those of the folder `path`, one after the other; binary files are left out. The text
/// is held in memory, so files that change during the run do no harm. Throws INVALID_ARGUMENT for files without text or
/// with more than 4 GiB of it, NOT_FOUND or UNAVAILABLE for what cannot be read.
TextFolder read_text_folder(const std::string& path, const std::vector<std::string>& files);

}  // namespace tessera::host
