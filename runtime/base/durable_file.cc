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
#include <utility>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(TSR_E_UNAVAILABLE, concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

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
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open the folder", folder);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  errno = error;
  if (error != 0) fail("sync the folder", folder);
}

// O_EXCL: a link of that name must not lead the data to another file.
PartialFile::PartialFile(std::string path, std::string partial) : path_(std::move(path)), partial_(std::move(partial)) {
  if (::unlink(partial_.c_str()) != 0 && errno != ENOENT) fail("create", partial_);
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create", partial_);
}

PartialFile::~PartialFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

void PartialFile::commit() {
  if (::fsync(descriptor_) != 0) fail("sync", partial_);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail("rename", partial_);
  ::close(std::exchange(descriptor_, -1));
  sync_folder(folder_of(path_));
}

void write_durably(const std::string& path, std::string_view text) {
  PartialFile file(path);
  write_all(file.descriptor(), text, file.path());
  file.commit();
}

}  // namespace tessera::host
