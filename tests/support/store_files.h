// The files of a FileStore, found as a stranger would find them: through /proc.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::testing {

/// The descriptors of this process's files below `folder` that have no name.
inline std::vector<int> unnamed_files(const std::string& folder) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && target.starts_with(folder) && target.ends_with("(deleted)"))
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

/// The file of a descriptor, opened once more and through the page cache.
inline int open_again(int descriptor, int flags) {
  const int again = ::open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), flags | O_CLOEXEC);
  if (again < 0) throw std::runtime_error("cannot open the descriptor again");
  return again;
}

inline void flip_bit(int descriptor, uint64_t offset) {
  const int file = open_again(descriptor, O_RDWR);
  unsigned char byte = 0;
  bool done = ::pread(file, &byte, 1, static_cast<off_t>(offset)) == 1;
  byte ^= 1;
  done = done && ::pwrite(file, &byte, 1, static_cast<off_t>(offset)) == 1;
  ::close(file);
  if (!done) throw std::runtime_error("cannot change the file");
}

}  // namespace tessera::testing
