// POSIX replaces a name in one step, so a reader or a crash sees the old file or the new one. A rename is durable once
// its folder is:
//
//     write config.json.partial, fsync it, rename it to config.json, fsync the folder
//
// Without the first fsync a power cut may leave the new name with an empty file.

#include "base/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(TSR_E_UNAVAILABLE, concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

/// An open descriptor that is closed in the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t num_written = ::write(fd, text.data(), text.size());
    if (num_written < 0 && errno == EINTR) continue;
    if (num_written < 0) fail("write", path);
    text.remove_prefix(static_cast<size_t>(num_written));
  }
}

}  // namespace

std::string folder_of(const std::string& path) {
  return std::filesystem::absolute(path).parent_path().string();
}

void sync_folder(const std::string& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) fail("open the folder", folder);
  if (::fsync(opened.get()) != 0) fail("sync the folder", folder);
}

void write_durably(const std::string& path, std::string_view text) {
  const std::string partial = path + ".partial";
  {
    const Descriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (file.get() < 0) fail("create", partial);
    try {
      write_all(file.get(), text, partial);
      if (::fsync(file.get()) != 0) fail("sync", partial);
      if (std::rename(partial.c_str(), path.c_str()) != 0) fail("rename", partial);
    } catch (const Error&) {
      ::unlink(partial.c_str());
      throw;
    }
  }
  sync_folder(folder_of(path));
}

}  // namespace tessera::host
