// A file in memory, which takes one content after another.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "fuzz/fuzz_target.h"
#include "support/temp_folder.h"

namespace tessera::testing {

class MemoryFile {
 public:
  /// With a name, path() is a link of that name in a folder of its own, for readers that look at names.
  explicit MemoryFile(std::string_view name = "") : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0, "no file in memory");
    const std::string unnamed = "/proc/self/fd/" + std::to_string(fd_);
    path_ = name.empty() ? unnamed : folder_.path(name);
    if (!name.empty()) std::filesystem::create_symlink(unnamed, path_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  std::string path() const { return path_; }
  std::string folder() const { return folder_.path(); }
  void write(std::string_view bytes) const {
    require(::ftruncate(fd_, static_cast<off_t>(bytes.size())) == 0, "ftruncate");
    require(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "pwrite");
  }

 private:
  const int fd_;
  const TempFolder folder_;
  std::string path_;
};

}  // namespace tessera::testing
