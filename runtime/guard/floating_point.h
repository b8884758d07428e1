// The floating-point state of a thread. A plugin must leave it unchanged, since it silently changes results.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace tessera::host {

/// The controls of this thread's floating-point unit in one number: rounding, flushing of denormals to zero, traps, and
/// the precision of the x87. Sticky flags (inexact, ...) change all the time and are not included. Takes a nanosecond.
inline uint64_t computing_now() noexcept {
#if defined(__x86_64__)
  constexpr uint32_t kSticky = 0x3f;
  uint16_t x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  return uint64_t{_mm_getcsr() & ~kSticky} << 16 | x87;
#elif defined(__aarch64__)
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return static_cast<uint64_t>(std::fegetround());
#endif
}

/// Restores the state that was read as `state`.
inline void compute_as(uint64_t state) noexcept {
#if defined(__x86_64__)
  const auto x87 = static_cast<uint16_t>(state);
  asm volatile("fldcw %0" : : "m"(x87));
  _mm_setcsr(static_cast<uint32_t>(state >> 16));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(state));
#else
  std::fesetround(static_cast<int>(state));
#endif
}

/// For messages: what such a plugin did, and how its author can fix it; the end of a sentence.
inline constexpr const char* kChangesComputing =
    "changes how floating-point numbers are computed (rounding, or flushing denormals to zero), and with that the "
    "results of everything else; link it without -ffast-math and -Ofast";

}  // namespace tessera::host
