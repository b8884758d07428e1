// A program can be started with closed standard files, and standard output can fail late (a full disk, a closed pipe).
// Neither may corrupt another file or pass for success.

#include "cli/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera::host {

void open_standard_files() {
  // A new descriptor is the lowest free one, so in this order each file gets its own number. A closed output is opened
  // for reading only: writes to it fail.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) == -1) ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

int StandardOutput::sync() {
  const char* next = pbase();
  while (!error_ && next != pptr()) {
    const ssize_t done = ::write(STDOUT_FILENO, next, static_cast<size_t>(pptr() - next));
    if (done >= 0)
      next += done;
    else if (errno != EINTR)
      error_ = errno;
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ ? -1 : 0;
}

StandardOutput::int_type StandardOutput::overflow(int_type next) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
  return traits_type::not_eof(next);
}

std::string StandardOutput::finish() {
  sync();
  if (!error_) return "";
  return error_ == EBADF ? "it is closed" : std::strerror(error_);
}

std::string StandardOutput::take_error() {
  const std::string error = finish();
  is_reported_ = !error.empty();
  return error;
}

void require_written_output() {
  auto* output = dynamic_cast<StandardOutput*>(std::cout.rdbuf());
  if (!output) return;
  if (const std::string error = output->take_error(); !error.empty())
    throw Error(TSR_E_UNAVAILABLE, kCannotWrite + error);
}

}  // namespace tessera::host
