#include "plugins/plugin_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "config/sha256.h"
#include "config/usage_error.h"
#include "observe/text.h"

namespace tessera {
namespace {

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

void check_folders(const std::filesystem::path& file) {
  for (std::filesystem::path folder = file.parent_path();; folder = folder.parent_path()) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) fail(file.string(), "checked");
    const bool is_roots_sticky = (status.st_mode & S_ISVTX) != 0 && status.st_uid == 0;
    if ((status.st_mode & S_IWOTH) != 0 && !is_roots_sticky)
      throw UsageError(concat("the plugin ", file.string(), " is in a folder that anybody may write, ", folder.string(),
                              "; run chmod o-w on it, or move the plugin"));
    if (folder == folder.root_path()) return;
  }
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

std::vector<char> read_all(int fd, size_t num_bytes, const std::string& path) {
  std::vector<char> bytes(num_bytes);
  for (size_t done = 0; done < num_bytes;) {
    const ssize_t got = ::read(fd, bytes.data() + done, num_bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read");
    if (got == 0) throw UsageError(concat("the plugin ", path, " became shorter while it was read; try again"));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace

PluginFile read_plugin_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) {
    errno = error.value();
    fail(path.string(), "found");
  }
  check_folders(real);
  // Not blocking: the path may be a pipe.
  const FileDescriptor file(::open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) fail(real.string(), "opened");
  const struct stat status = check_file(file.get(), real.string());
  PluginFile result{real.string(), read_all(file.get(), static_cast<size_t>(status.st_size), real.string()), ""};
  result.sha256 = sha256_hex({result.bytes.data(), result.bytes.size()});
  return result;
}

}  // namespace tessera
