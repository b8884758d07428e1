// Arrays that a plugin gives by pointer and count, checked before they are read.
#pragma once

#include <cstdint>

#include "tessera/core.h"

namespace tessera::host {

/// Whether this process can read those bytes; true where the system does not tell. Costs a read of each page, or
/// without a handler of crashes (expect_handler) a system call. [any-thread]
bool is_readable(const void* pointer, uint64_t num_bytes) noexcept;

/// The most elements that an array of an edit may have, bytes that a text may have.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 22;
inline constexpr uint64_t kMaxTextBytes = 4096;

/// Throws INVALID_ARGUMENT, a sentence with `what`, if the array is null though its count is not 0, has more than
/// kMaxElements, or is in memory that cannot be read.
void check_array(const void* pointer, uint64_t count, uint64_t element_bytes, const char* what);
template <class T>
void check_array(const T* pointer, uint64_t count, const char* what) {
  check_array(pointer, count, sizeof(T), what);
}
/// The same for one element, which must be there.
template <class T>
const T& checked(const T* pointer, const char* what) {
  check_array(pointer, 1, sizeof(T), what);
  return *pointer;
}
/// The same for a text of at most kMaxTextBytes, which is UTF-8 without control characters.
void check_text(tsr_str text, const char* what);

/// From now on crashes of this process come to a handler, which calls the next first, with what it was given, and
/// returns where that says true: the crash was a question of is_readable. Safe in handlers.
void expect_handler() noexcept;
/// In a child process that has none.
void forget_handler() noexcept;
bool go_on_after_touch(void* context) noexcept;

}  // namespace tessera::host
