// The file is removed while it is locked, so one that was opened just before may have no name any more when its lock is
// free: then the next one is tried.

#include "storage/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::chrono::milliseconds kPause(20);

}  // namespace

FolderLock::FolderLock(std::string_view flag, const std::string& folder, std::string_view name,
                       std::chrono::milliseconds patience)
    : name_(concat(flag, " ", folder)), path_(concat(folder, "/", name)) {
  take(patience, "; give another folder, or wait for it");
}

FolderLock::~FolderLock() {
  release();
}

bool FolderLock::is_lost() const {
  return was_lost_ || (descriptor_ >= 0 && !is_still_there());
}

bool FolderLock::renew(std::chrono::milliseconds patience) {
  if (!is_lost()) return false;
  was_lost_ = true;  // also when take() throws
  take(patience, concat(": ", path_, ", or the folder with it, was removed while this run was using it; stop one of ",
                        "the two runs, and start it again with another folder"));
  was_lost_ = descriptor_ < 0;
  return true;
}

void FolderLock::release() {
  if (descriptor_ >= 0 && is_still_there()) ::unlink(path_.c_str());
  close();
  was_lost_ = true;
}

/// `advice` ends the sentence about another run that has it.
void FolderLock::take(std::chrono::milliseconds patience, std::string_view advice) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!try_to_take()) {
    if (std::chrono::steady_clock::now() >= end) {
      const std::string other = holder();
      close();
      throw Error(TSR_E_UNAVAILABLE, concat(name_, " is being written by another run",
                                            other.empty() ? "" : concat(" (", other, ")"), advice));
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// Whether the caller may go on: with the lock, or because locks do not work here.
bool FolderLock::try_to_take() {
  close();
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (descriptor_ < 0) return true;
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    close();
    return true;
  }
  if (!is_still_there()) return false;
  const std::string text = process_text(::getpid(), host_name()) + "\n";
  // Only for the other run's sentence.
  [[maybe_unused]] const bool is_written =
      ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, text.data(), text.size(), 0) > 0;
  return true;
}

/// Whether the open file is that of the name.
bool FolderLock::is_still_there() const {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor_, &opened) == 0 && ::lstat(path_.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/// The first line of the open file.
std::string FolderLock::holder() const {
  char text[256];
  const ssize_t size = ::pread(descriptor_, text, sizeof text, 0);
  const std::string_view all(text, size > 0 ? static_cast<size_t>(size) : 0);
  return printable(all.substr(0, all.find('\n')));
}

void FolderLock::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace tessera::host
