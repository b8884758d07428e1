// process_vm_readv on the own process copies like memcpy and returns an error where memcpy would crash. One byte of
// each page is enough, since pages are what can be read or not.
//
// A pass gives the host thousands of arrays, and that question costs 0.4 us. Nothing may be remembered either, as a
// plugin may give a page back to the system in between. So where the host has a handler for crashes (crash_report.h), a
// page is read by one instruction that the handler knows: if it fails, the handler lets it go on past it.

#include "guard/readable.h"

#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>

#include "base/concat.h"
#include "tessera/error.hpp"

#if defined(__x86_64__) && !defined(TESSERA_IS_SANITIZED)
#define TESSERA_HAS_TOUCH
extern "C" int tessera_touch(const void* byte) noexcept;
extern "C" const char tessera_touch_load[], tessera_touch_failed[];
#endif

namespace tessera::host {
namespace {

constexpr uint64_t kPageBytes = 4096;  // the smallest page there is; larger ones are asked for more than once
constexpr size_t kMaxPages = 64;       // asked for at once

uintptr_t page_of(uintptr_t address) {
  return address / kPageBytes * kPageBytes;
}

// Reads the byte at its argument; 1, or 0 where that cannot be read.
#ifdef TESSERA_HAS_TOUCH
asm(".pushsection .text\n"
    "tessera_touch: movl $1, %eax\n"
    "tessera_touch_load: movb (%rdi), %cl\n"
    "ret\n"
    "tessera_touch_failed: xorl %eax, %eax\n"
    "ret\n"
    ".popsection\n");
bool has_handler = false;
#endif

[[noreturn]] void refuse(const char* what, const std::string& why) {
  throw Error(TSR_E_INVALID_ARGUMENT, concat(what, " ", why));
}

}  // namespace

#ifdef TESSERA_HAS_TOUCH
void expect_handler() noexcept {
  has_handler = true;
}

void forget_handler() noexcept {
  has_handler = false;
}

bool go_on_after_touch(void* context) noexcept {
  auto& next = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  if (next != reinterpret_cast<greg_t>(tessera_touch_load)) return false;
  next = reinterpret_cast<greg_t>(tessera_touch_failed);
  return true;
}
#else
void expect_handler() noexcept {}
void forget_handler() noexcept {}
bool go_on_after_touch(void*) noexcept {
  return false;
}
#endif

bool is_readable(const void* pointer, uint64_t num_bytes) noexcept {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  if (num_bytes == 0) return true;
  if (begin == 0 || begin + num_bytes < begin) return false;
#ifdef TESSERA_HAS_TOUCH
  if (has_handler) {
    for (uintptr_t next = begin; next < begin + num_bytes; next = page_of(next) + kPageBytes)
      if (!tessera_touch(reinterpret_cast<const void*>(next))) return false;
    return true;
  }
#endif
  char bytes[kMaxPages];
  for (uintptr_t next = begin; next < begin + num_bytes;) {
    iovec pages[kMaxPages];
    size_t num_pages = 0;
    for (; num_pages < kMaxPages && next < begin + num_bytes; next = page_of(next) + kPageBytes)
      pages[num_pages++] = {reinterpret_cast<void*>(next), 1};
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
