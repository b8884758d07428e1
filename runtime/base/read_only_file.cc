// Files read with pread, not mmap: when another process truncates a mapped file, this one dies of SIGBUS, while a read
// gives an error that names the file. pread uses no file position, so threads may share a descriptor.

#include "base/read_only_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

const char* advice(int reason, bool is_link) {
  switch (reason) {
    case ENOENT:
      return is_link ? "; restore what the link points to, or replace the link" : "";
    case ELOOP:
      return "; its links form a loop: replace them";
    case EACCES:
      return is_link ? "; let this user read what the link points to, and enter the folders on the way"
                     : "; let this user read it, and enter its folder";
    case EMFILE:
      return "; raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

Error cannot_open(const std::string& path, int reason) {
  std::error_code not_a_link;
  const std::filesystem::path target = std::filesystem::read_symlink(path, not_a_link);
  return Error(reason == ENOENT ? TSR_E_NOT_FOUND : TSR_E_UNAVAILABLE,
               concat("cannot open ", path, not_a_link ? "" : ", a link to " + target.string(), ": ",
                      std::strerror(reason), advice(reason, !not_a_link)));
}

[[noreturn]] void refuse_size(const std::string& path, const std::string& has, uint64_t max_bytes) {
  throw Error(TSR_E_INVALID_ARGUMENT, concat(path, " has ", has, " bytes; at most ", max_bytes, " are read"));
}

/// What comes until the pipe ends. A named one without a writer ends at once.
std::string read_to_end(const std::string& path, int fd, uint64_t max_bytes) {
  std::string text;
  std::array<char, 1 << 16> part{};
  for (;;) {
    const ssize_t num_read = ::read(fd, part.data(), part.size());
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read < 0) throw Error(TSR_E_UNAVAILABLE, concat("cannot read ", path, ": ", std::strerror(errno)));
    if (num_read == 0) return text;
    text.append(part.data(), static_cast<size_t>(num_read));
    if (text.size() > max_bytes) refuse_size(path, concat("more than ", max_bytes), max_bytes);
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

ReadOnlyFile::ReadOnlyFile(const std::string& path, std::size_t max_bytes_per_call)
    : path_(path), max_bytes_per_call_(max_bytes_per_call) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer; it changes nothing for a regular file.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw cannot_open(path, errno);
  struct stat info {};
  const bool is_known = ::fstat(fd_, &info) == 0;
  if (!is_known || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    throw Error(TSR_E_INVALID_ARGUMENT, concat(path, " is ", is_known ? kind_of(info.st_mode) : "unknown to the system",
                                               ", not a regular file; give a file on a disk"));
  }
  num_bytes_ = static_cast<uint64_t>(info.st_size);
}

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept
    : path_(std::move(other.path_)),
      max_bytes_per_call_(other.max_bytes_per_call_),
      fd_(std::exchange(other.fd_, -1)),
      num_bytes_(other.num_bytes_) {}

ReadOnlyFile::~ReadOnlyFile() {
  if (fd_ >= 0) ::close(fd_);
}

void ReadOnlyFile::read(uint64_t offset, std::span<std::byte> out) const {
  std::size_t num_done = 0;
  while (num_done < out.size()) {
    const std::size_t num_wanted = std::min(out.size() - num_done, max_bytes_per_call_);
    const ssize_t num_read = ::pread(fd_, out.data() + num_done, num_wanted, static_cast<off_t>(offset + num_done));
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read < 0) {
      throw Error(TSR_E_UNAVAILABLE,
                  concat("cannot read ", path_, " at byte ", offset + num_done, ": ", std::strerror(errno)));
    }
    if (num_read == 0) {
      throw Error(TSR_E_DATA_LOSS, concat(path_, " ends at byte ", end_before(offset + num_done), ", but ", out.size(),
                                          " bytes from byte ", offset, " are needed; was it cut while it was in use?"));
    }
    num_done += static_cast<std::size_t>(num_read);
  }
}

uint64_t ReadOnlyFile::end_before(uint64_t offset) const {
  struct stat info {};
  return ::fstat(fd_, &info) == 0 ? std::min(offset, static_cast<uint64_t>(info.st_size)) : offset;
}

int ReadOnlyFile::open_direct() const {
  return ::open(concat("/proc/self/fd/", fd_).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
}

void ReadOnlyFile::expect(uint64_t offset, uint64_t num_bytes) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(num_bytes), POSIX_FADV_WILLNEED);
}

bool name_is_there(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  const int reason = errno;
  if (reason == ENOENT || reason == ENOTDIR) return false;
  throw Error(TSR_E_UNAVAILABLE,
              concat("cannot tell whether ", path, " exists: ", std::strerror(reason), advice(reason, false)));
}

std::string read_text_file(const std::string& path, uint64_t max_bytes, std::string_view flag) try {
  const ReadOnlyFile file(path);
  if (file.num_bytes() > max_bytes) refuse_size(path, std::to_string(file.num_bytes()), max_bytes);
  std::string text(file.num_bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
} catch (const Error& error) {
  if (flag.empty()) throw;
  throw Error(error.code(), concat(flag, ": ", error.what()));
}

std::string beginning_of(const std::string& path, std::size_t max_bytes) try {
  const ReadOnlyFile file(path);
  std::string begin(std::min<uint64_t>(file.num_bytes(), max_bytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin;
} catch (const Error&) {
  return "";
}

bool is_pipe(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
}

std::string read_text_or_pipe(const std::string& path, uint64_t max_bytes) {
  if (!is_pipe(path)) return read_text_file(path, max_bytes);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw cannot_open(path, errno);
  const struct Closing {
    int fd;
    ~Closing() { ::close(fd); }
  } closing{fd};
  ::fcntl(fd, F_SETFL, 0);  // reads wait for the writers there are
  return read_to_end(path, fd, max_bytes);
}

}  // namespace tessera::host
