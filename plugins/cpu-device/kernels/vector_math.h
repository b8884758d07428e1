// Elementary functions for loops that the compiler vectorises. For files compiled once per level (see simd.h) only.
#pragma once

#include <cstdint>

namespace tessera::cpu::TESSERA_SIMD {

/// e^x within 2 units in the last place for x in [-87.3, 88]: 0 below, e^88 above, NaN for NaN.
inline __attribute__((always_inline)) float exp(float x) {
  constexpr float kLowest = -87.33654f, kHighest = 88.0f;
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float low = x < kLowest ? kLowest : x;
  const float clamped = low > kHighest ? kHighest : low;
  const float shifted = __builtin_fmaf(clamped, kLog2E, kRound);
  const float n = shifted - kRound;
  const float r = __builtin_fmaf(n, -kLn2Low, __builtin_fmaf(n, -kLn2High, clamped));
  // Taylor's coefficients, adjusted for |r| <= ln(2)/2 (Cephes, expf).
  float p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  p = __builtin_fmaf(p, r, 5.0000001201e-1f);
  p = __builtin_fmaf(p, r * r, r) + 1.0f;
  const uint32_t exponent = (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u;
  const float value = p * __builtin_bit_cast(float, exponent);
  return x < kLowest ? 0.0f : value;
}

}  // namespace tessera::cpu::TESSERA_SIMD
