// O_TMPFILE makes a file that never has a name, and O_EXCL forbids to give it one. File systems without it get a name
// from mkostemp, which is removed at once: a process that is killed between the two calls leaves an empty file.
//
// Space is reserved before anything is written, so a full disk is found at start. O_DIRECT is set and then tried, since
// some file systems accept the flag and refuse the transfer.

#include "storage/unnamed_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "storage/block_sums.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr mode_t kOwnerOnly = 0600;

void check_folder(const std::string& folder, const std::string& name) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return;
    throw Error(TSR_E_INVALID_ARGUMENT, concat(name, " is not a folder; give one on a local disk"));
  }
  if (errno == ENOENT) throw Error(TSR_E_NOT_FOUND, concat(name, " does not exist; make it, on a local disk"));
  throw Error(TSR_E_UNAVAILABLE, concat(name, ": ", std::strerror(errno)));
}

int open_and_unlink(const std::string& folder) {
  std::string name = folder + "/tessera-XXXXXX";  // mkostemp: mode 0600
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor >= 0) ::unlink(name.c_str());
  return descriptor;
}

int open_unnamed(const std::string& folder, const std::string& name) {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, kOwnerOnly);
  // Of file systems and of kernels that do not know O_TMPFILE.
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT))
    descriptor = open_and_unlink(folder);
  if (descriptor >= 0) return descriptor;
  const int reason = errno;
  const bool is_forbidden = reason == EACCES || reason == EPERM || reason == EROFS;
  throw Error(TSR_E_UNAVAILABLE, concat(name, ": cannot make a file there: ", std::strerror(reason),
                                        is_forbidden ? "; give a folder that this user may write to" : ""));
}

Error no_space(const std::string& name, uint64_t available, uint64_t needed) {
  return Error(TSR_E_RESOURCE_EXHAUSTED,
               concat(name, " has ", human_bytes(available), " free; ", human_bytes(needed), " are needed there"));
}

bool is_memory(const struct statfs& info) {
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

}  // namespace

std::optional<uint64_t> available_bytes(const std::string& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
  return uint64_t{info.f_bavail} * info.f_frsize;
}

UnnamedFile::UnnamedFile(const std::string& folder, uint64_t num_bytes, const Log& log, const std::string& flag)
    : folder_(folder), name_(flag.empty() ? folder : concat(flag, " ", folder)) {
  check_folder(folder, name_);
  descriptor_ = open_unnamed(folder, name_);
  try {
    reserve(num_bytes, log);
    choose_path(num_bytes, log);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

UnnamedFile::UnnamedFile(UnnamedFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_cached_(other.is_cached_) {}

UnnamedFile::~UnnamedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void UnnamedFile::reserve(uint64_t num_bytes, const Log& log) const {
  if (num_bytes == 0) return;
  rlimit limit{};
  // First, because the system ends a process that asks for more with a signal.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && num_bytes > limit.rlim_cur)
    throw Error(TSR_E_RESOURCE_EXHAUSTED,
                concat(name_, ": a file of this process may have ", human_bytes(limit.rlim_cur), "; ",
                       human_bytes(num_bytes), " are needed there; raise the limit (ulimit -f)"));
  const std::optional<uint64_t> available = available_bytes(folder_);
  if (available && num_bytes > *available) throw no_space(name_, *available, num_bytes);
  int result = 0;
  do {
    result = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(num_bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno == ENOSPC || errno == EDQUOT) throw no_space(name_, available.value_or(0), num_bytes);
  if (errno != EOPNOTSUPP || ::ftruncate(descriptor_, static_cast<off_t>(num_bytes)) != 0)
    throw Error(TSR_E_UNAVAILABLE,
                concat(name_, ": cannot reserve ", human_bytes(num_bytes), ": ", std::strerror(errno)));
  log.warning(name_, ": its file system cannot reserve space; ", human_bytes(num_bytes),
              " must stay free, or the run fails when they are written");
}

void UnnamedFile::choose_path(uint64_t num_bytes, const Log& log) {
  struct statfs info {};
  const bool in_memory = ::fstatfs(descriptor_, &info) == 0 && is_memory(info);
  if (in_memory)
    log.warning(name_, " is in memory (tmpfs): what is offloaded there stays in this machine's ",
                "memory; give a folder on a local disk");
  if (takes_direct(num_bytes) || in_memory) return;
  is_cached_ = true;
  log.warning(name_, ": its file system has no direct I/O (O_DIRECT); ",
              "transfers go through the page cache and cost more processor time");
}

bool UnnamedFile::takes_direct(uint64_t num_bytes) const {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) return false;
  alignas(kBlockBytes) static constexpr std::array<std::byte, kBlockBytes> kZeros{};
  if (num_bytes == 0 || ::pwrite(descriptor_, kZeros.data(), kZeros.size(), 0) >= 0 || errno != EINVAL) return true;
  ::fcntl(descriptor_, F_SETFL, flags);
  return false;
}

int UnnamedFile::drop_cached(uint64_t offset, uint64_t num_bytes) const {
  if (!is_cached_) return 0;
  const auto first = static_cast<off_t>(offset), length = static_cast<off_t>(num_bytes);
  constexpr unsigned kWriteAndWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(descriptor_, first, length, kWriteAndWait) != 0) return errno;
  ::posix_fadvise(descriptor_, first, length, POSIX_FADV_DONTNEED);  // advice: what stays costs memory only
  return 0;
}

}  // namespace tessera::host
