// A library to be preloaded: the calls with which a checkpoint is saved fail, or end the process, where a test says.
//
//     TESSERA_FAULT_FOLDER   only calls on paths below it, and on files open there, count
//     TESSERA_FAULT_AT       which one, from 1 on; the process is killed before it does anything
//     TESSERA_FAULT_ERRNO    instead it returns this error; with TESSERA_FAULT_LASTS=1 so does every later one that
//                            writes
//     TESSERA_FAULT_COUNT    a file: how many there were, appended when the process ends
//     TESSERA_FAULT_SLOW_MS  every fsync takes so long
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

std::atomic<long> num_calls{0};

long number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atol(text) : 0;
}

bool is_below(std::string_view path) {
  const char* folder = std::getenv("TESSERA_FAULT_FOLDER");
  return folder && path.substr(0, std::strlen(folder)) == folder;
}

bool is_open_below(int fd) {
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path);
  return length > 0 && is_below({path, static_cast<size_t>(length)});
}

/// Whether the call is to fail; sets errno.
bool fails(bool counts) {
  if (!counts) return false;
  const long call = ++num_calls, at = number("TESSERA_FAULT_AT");
  if (at == 0 || call < at || (call > at && !number("TESSERA_FAULT_LASTS"))) return false;
  const long error = number("TESSERA_FAULT_ERRNO");
  if (!error) ::kill(::getpid(), SIGKILL);
  errno = static_cast<int>(error);
  return true;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

struct Count {
  ~Count() {
    const char* path = std::getenv("TESSERA_FAULT_COUNT");
    if (!path) return;
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%ld\n", num_calls.load());
      std::fclose(file);
    }
  }
} count;

}  // namespace

extern "C" {

int fsync(int fd) {
  const bool counts = is_open_below(fd);
  if (counts) ::usleep(static_cast<useconds_t>(number("TESSERA_FAULT_SLOW_MS") * 1000));
  return fails(counts) ? -1 : next<int(int)>("fsync")(fd);
}
int ftruncate(int fd, off_t size) noexcept {
  return fails(is_open_below(fd)) ? -1 : next<int(int, off_t)>("ftruncate")(fd, size);
}
int ftruncate64(int fd, off64_t size) noexcept {
  return fails(is_open_below(fd)) ? -1 : next<int(int, off64_t)>("ftruncate64")(fd, size);
}
ssize_t write(int fd, const void* data, size_t size) {
  return fails(is_open_below(fd)) ? -1 : next<ssize_t(int, const void*, size_t)>("write")(fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  return fails(is_open_below(fd)) ? -1 : next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  return fails(is_open_below(fd)) ? -1
                                  : next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, data, size, at);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return fails(is_below(path)) ? -1 : next<int(const char*, mode_t)>("mkdir")(path, mode);
}
int rename(const char* from, const char* to) noexcept {
  return fails(is_below(from)) ? -1 : next<int(const char*, const char*)>("rename")(from, to);
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept {
  return fails(is_below(from))
             ? -1
             : next<int(int, const char*, int, const char*, unsigned)>("renameat2")(a, from, b, to, flags);
}
int unlink(const char* path) noexcept {
  return fails(is_below(path)) ? -1 : next<int(const char*)>("unlink")(path);
}
int remove(const char* path) noexcept {
  return fails(is_below(path)) ? -1 : next<int(const char*)>("remove")(path);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  const bool counts = path[0] == '/' ? is_below(path) : folder >= 0 && is_open_below(folder);
  return fails(counts) ? -1 : next<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}

static int open_with(const char* name, const char* path, int flags, mode_t mode) {
  if (fails((flags & O_CREAT) && is_below(path))) return -1;
  return next<int(const char*, int, mode_t)>(name)(path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_with("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_with("open64", path, flags, mode);
}

}  // extern "C"
