// A folder of text files as one sequence of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::host {

struct TextFolder {
  std::vector<std::byte> bytes;
  uint64_t num_files = 0;    ///< read
  uint64_t num_skipped = 0;  ///< binary files
};

/// The concatenated text of `files`, which are those of the folder `path`; binary files are skipped. The text is held
/// in memory, so files may change during the run. Throws INVALID_ARGUMENT for files without text or with more than
/// 4 GiB of it, NOT_FOUND or UNAVAILABLE for a file that cannot be read.
TextFolder read_text_folder(const std::string& path, const std::vector<std::string>& files);

}  // namespace tessera::host
