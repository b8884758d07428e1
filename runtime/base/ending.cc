// Memory that a parent shares with its children, with one Ending for each of them:
//
//     parent     SharedEndings: memfd_create, ftruncate, mmap
//     forked     has the mapping
//     started    inherits the file's descriptor, and maps it again: take_ending(descriptor, its place)
//
// An exit code cannot tell a child that is done from one that a plugin has ended, since a plugin may choose any code.
// The file has no name, so only these processes have it, and it is gone with them.

#include "base/ending.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/concat.h"
#include "base/terminal.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free, "shared between processes");

size_t bytes_of(int num_processes) {
  return static_cast<size_t>(num_processes) * sizeof(Ending);
}

Ending* mapped(int file, int num_processes) {
  void* const memory = ::mmap(nullptr, bytes_of(num_processes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Ending*>(memory);
}

}  // namespace

SharedEndings::SharedEndings(int num_processes)
    : num_processes_(num_processes), file_(::memfd_create("tessera endings", MFD_CLOEXEC)) {
  if (file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(bytes_of(num_processes))) == 0)
    endings_ = mapped(file_, num_processes);
  if (endings_) return;
  const int error = errno;
  ::close(file_);
  throw Error(TSR_E_UNAVAILABLE, concat("cannot share memory with the processes to be started: ", ::strerror(error),
                                        error == EFBIG ? "; raise ulimit -f" : ""));
}

SharedEndings::~SharedEndings() {
  ::munmap(endings_, bytes_of(num_processes_));
  ::close(file_);
}

void end_process(int exit_code) {
  write_what_is_kept(UntilRead::forever);  // it may say why
  host_ends_process = true;
  ending->is_told = ::fcntl(STDERR_FILENO, F_GETFD) >= 0;  // a plugin may have closed it
  ::_exit(exit_code);
}

bool take_ending(int file, int process) {
  struct stat status {};
  const bool is_there =
      process >= 0 && ::fstat(file, &status) == 0 && static_cast<size_t>(status.st_size) >= bytes_of(process + 1);
  Ending* const endings = is_there ? mapped(file, process + 1) : nullptr;
  if (!endings) return false;
  ::close(file);
  ending = &endings[process];
  return true;
}

}  // namespace tessera::host
