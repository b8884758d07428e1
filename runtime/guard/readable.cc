// process_vm_readv on the own process copies like memcpy and returns an error where memcpy would crash. One byte of
// each page is enough, since pages are what can be read or not.
//
// A pass gives the host thousands of arrays, most of them on few pages: its stack, and where its allocator puts small
// blocks. So readable pages are remembered until the thread's next call of a plugin. A plugin that unmaps a page within
// the call and then passes it crashes, and the report names it.

#include "guard/readable.h"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/concat.h"
#include "guard/thread_calls.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kPageBytes = 4096;  // the smallest page there is; larger ones are asked for more than once
constexpr size_t kMaxPages = 64;       // asked for at once

uintptr_t page_of(uintptr_t address) {
  return address / kPageBytes * kPageBytes;
}

/// The pages that this thread has found readable during the call of a plugin that it is in.
class KnownPages {
 public:
  bool has(uintptr_t page) { return page != 0 && is_of_this_call() && slot(page) == page; }
  void add(uintptr_t page) {
    if (is_of_this_call()) slot(page) = page;
  }

 private:
  static constexpr size_t kNumSlots = 256;

  bool is_of_this_call() {
    if (!this_thread_calls.function()) return false;
    if (call_ != this_thread_calls.num_calls) pages_ = {};
    call_ = this_thread_calls.num_calls;
    return true;
  }
  uintptr_t& slot(uintptr_t page) { return pages_[page / kPageBytes % kNumSlots]; }

  uint64_t call_ = 0;
  std::array<uintptr_t, kNumSlots> pages_{};
};
thread_local KnownPages known_pages;

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
    for (; num_pages < kMaxPages && next < begin + num_bytes; next = page_of(next) + kPageBytes)
      if (!known_pages.has(page_of(next))) pages[num_pages++] = {reinterpret_cast<void*>(next), 1};
    if (num_pages == 0) continue;
    const iovec to{bytes, num_pages};
    const ssize_t got = ::process_vm_readv(::getpid(), &to, 1, pages, num_pages, 0);
    if (got < 0 && errno != EFAULT) return true;
    if (got != static_cast<ssize_t>(num_pages)) return false;
    for (size_t i = 0; i < num_pages; ++i)
      known_pages.add(page_of(reinterpret_cast<uintptr_t>(pages[i].iov_base)));
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
