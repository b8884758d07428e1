// Checks which users could change a plugin's file (decision 0025). A plugin is code that runs as this user, so the file
// and all folders above it must belong to users who could run code as this user anyway: root, this user, the owner of
// the program. World-writable files and folders are refused; what another user or a group may write is refused to root,
// and causes a warning otherwise.
//
// The file is opened once, and its bytes are hashed from that descriptor.

#include "plugins/plugin_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/concat.h"
#include "base/sha256.h"
#include "config/usage_error.h"
#include "plugins/elf_inspect.h"

namespace tessera::host {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw UsageError(
      concat("the plugin ", path, " cannot be ", what, ": ", std::strerror(errno), "; check --plugin-dir and the name"),
      TSR_E_NOT_FOUND);
}

}  // namespace

TrustedUsers trusted_users() {
  struct stat program {};
  const uid_t self = ::geteuid();
  // The owner of the program can make this user run anything, so a plugin of that owner adds no risk.
  return {self, ::stat("/proc/self/exe", &program) == 0 ? program.st_uid : self};
}

namespace {

bool holds_the_program(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return std::mismatch(folder.begin(), folder.end(), program.begin(), program.end()).first == folder.end();
}

// Such as /tmp: other users may add files there, but not replace those of this user.
bool is_roots_sticky(const struct stat& folder) {
  return (folder.st_mode & S_ISVTX) != 0 && folder.st_uid == 0;
}

}  // namespace

FolderWriters writers_of(const std::filesystem::path& innermost, const TrustedUsers& trusted) {
  FolderWriters found;
  for (std::filesystem::path folder = innermost;; folder = folder.parent_path()) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) fail(innermost.string(), "checked");
    if ((status.st_mode & S_IWOTH) != 0 && !is_roots_sticky(status)) return {folder, "", true};
    const std::string who = who_else_may_write(status, trusted);
    if (found.who.empty() && !who.empty() && !is_roots_sticky(status) && !holds_the_program(folder))
      found = {folder, who, false};
    if (folder == folder.root_path()) return found;
  }
}

namespace {

/// Checks the folders above the file. Returns, for the innermost one that other users may write, which users these are.
std::string check_folders(const std::filesystem::path& file, const TrustedUsers& trusted) {
  const FolderWriters writers = writers_of(file.parent_path(), trusted);
  if (writers.may_anybody)
    throw UsageError(concat("the plugin ", file.string(), " is in a folder that any user may write, ",
                            writers.folder.string(), "; run chmod o-w on it, or move the plugin"));
  return writers.who.empty() ? "" : concat("is in the folder ", writers.folder.string(), ", which ", writers.who);
}

struct stat check_file(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail(path, "checked");
  if (!S_ISREG(status.st_mode))
    throw UsageError(concat("the plugin ", path, " is not a regular file; give the path of a shared object"));
  if ((status.st_mode & S_IWOTH) != 0)
    throw UsageError(concat("the plugin ", path, " may be written by anybody; run chmod o-w on it"));
  return status;
}

/// Reads from `done` on.
void read_rest(int fd, std::vector<char>& bytes, size_t done, const std::string& path) {
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read");
    if (got == 0) throw UsageError(concat("the plugin ", path, " became shorter while it was read; try again"));
    done += static_cast<size_t>(got);
  }
}

/// The first bytes first: a large file that is something else is refused before memory is taken for it.
std::vector<char> read_all(int fd, uint64_t num_bytes, const std::string& path) {
  std::vector<char> bytes(std::min<uint64_t>(num_bytes, kElfMagicBytes));
  read_rest(fd, bytes, 0, path);
  const size_t done = bytes.size();
  try {
    check_elf_magic(bytes);
  } catch (const UsageError& error) {
    throw UsageError(concat("the plugin ", path, " ", error.what()), error.code());
  }
  if (num_bytes > kMaxFileBytes)
    throw UsageError(concat("the plugin ", path, " has ", num_bytes, " bytes; the limit is ", kMaxFileBytes,
                            ", so bring large data in files of its own"));
  bytes.resize(num_bytes);
  read_rest(fd, bytes, done, path);
  return bytes;
}

}  // namespace

PluginFile read_plugin_file(const std::filesystem::path& path) {
  std::error_code error;
  // Links are resolved first: the folders that matter are those of the file itself.
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) {
    errno = error.value();
    fail(path.string(), "found");
  }
  const TrustedUsers trusted = trusted_users();
  std::string others = check_folders(real, trusted);
  // O_NONBLOCK: the path may be a pipe.
  const FileDescriptor file(::open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) fail(real.string(), "opened");
  const struct stat status = check_file(file.get(), real.string());
  if (const std::string who = who_else_may_write(status, trusted); !who.empty()) others = who;
  PluginFile result{real.string(), {}, "", others.empty() ? "" : concat("the plugin ", real.string(), " ", others)};
  if (trusted.self == 0 && !others.empty())
    throw UsageError(result.warning + "; root does not run code that other users may change");
  result.bytes = read_all(file.get(), static_cast<uint64_t>(status.st_size), result.path);
  result.sha256 = sha256_hex({result.bytes.data(), result.bytes.size()});
  return result;
}

std::string who_else_may_write(const struct stat& status, const TrustedUsers& trusted) {
  const uid_t owner = status.st_uid;
  if (owner != 0 && owner != trusted.self && owner != trusted.program)
    return concat("belongs to user ", owner, "; if you trust what is in it, run chown ", trusted.self, " on it");
  // Many systems give each user a group of the same number without other members.
  const bool is_own_group = status.st_gid == 0 || status.st_gid == owner;
  if ((status.st_mode & S_IWGRP) != 0 && !is_own_group)
    return concat("may be written by group ", status.st_gid, "; run chmod g-w on it");
  return "";
}

}  // namespace tessera::host
