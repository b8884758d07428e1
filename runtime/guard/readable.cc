// process_vm_readv on the own process copies like memcpy and returns an error where memcpy would crash. One byte of
// each page is enough, since pages are what can be read or not.

#include "guard/readable.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kPageBytes = 4096;  // the smallest page there is; larger ones are asked for more than once
constexpr size_t kMaxPages = 64;       // asked for at once

[[noreturn]] void refuse(const char* what, const std::string& why) {
  throw Error(TSR_E_INVALID_ARGUMENT, concat(what, " ", why));
}

}  // namespace

bool is_readable(const void* pointer, uint64_t num_bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  if (num_bytes == 0) return true;
  if (begin == 0 || begin + num_bytes < begin) return false;
  char bytes[kMaxPages];
  for (uintptr_t next = begin; next < begin + num_bytes;) {
    iovec pages[kMaxPages];
    size_t num_pages = 0;
    for (; num_pages < kMaxPages && next < begin + num_bytes; ++num_pages) {
      pages[num_pages] = {reinterpret_cast<void*>(next), 1};
      next = (next / kPageBytes + 1) * kPageBytes;
    }
    const iovec to{bytes, num_pages};
    const ssize_t got = ::process_vm_readv(::getpid(), &to, 1, pages, num_pages, 0);
    if (got < 0 && errno != EFAULT) return true;
    if (got != static_cast<ssize_t>(num_pages)) return false;
  }
  return true;
}

void check_array(const void* pointer, uint64_t count, uint64_t element_bytes, const char* what) {
  if (count == 0) return;
  if (!pointer) refuse(what, count == 1 ? "is NULL" : concat("is NULL, with a count of ", count));
  if (count > kMaxElements) refuse(what, concat("has a count of ", count, "; the limit is ", kMaxElements));
  if (!is_readable(pointer, count * element_bytes))
    refuse(what, concat("points to memory that cannot be read, or is shorter than its count, ", count));
}

void check_text(tsr_str text, const char* what) {
  if (text.len > kMaxTextBytes)
    refuse(what, concat("has a text of ", text.len, " bytes; the limit is ", kMaxTextBytes));
  check_array(text.ptr, text.len, 1, what);
  // It becomes part of texts that ranks compare and files keep.
  const std::string_view given = text.len ? std::string_view(text.ptr, text.len) : std::string_view();
  if (given.find('\n') != given.npos || printable(given) != given)
    refuse(what, "is not UTF-8 or has control characters");
}

}  // namespace tessera::host
