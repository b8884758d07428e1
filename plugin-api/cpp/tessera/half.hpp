// SPDX-License-Identifier: Apache-2.0
// IEEE half (f16) and bfloat16 (bf16) as bit patterns: widening is exact, narrowing rounds to nearest even, NaN stays
// NaN (made quiet), overflow becomes infinity. Straight-line integer code, so that loops over it vectorise;
// always inlined, so that a loop compiled for one instruction set keeps to it.
#pragma once

#include <cstdint>
#include <cstring>

namespace tessera {

[[gnu::always_inline]] inline uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
[[gnu::always_inline]] inline float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// `condition` ? a : b by masks: a branch around the float operation that computes `a` would prevent vectorisation.
[[gnu::always_inline]] inline uint32_t select_bits(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

[[gnu::always_inline]] inline float bf16_to_float(uint16_t bits) {
  return float_from_bits(static_cast<uint32_t>(bits) << 16);
}

// bf16 is float32 without its low 16 bits. To round to nearest even: add half of the last kept bit, less one unless
// that bit is set; a carry into the exponent is what rounding up a full mantissa means, and gives infinity at the top.
[[gnu::always_inline]] inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t quiet_nan = bits >> 16 | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

[[gnu::always_inline]] inline float f16_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fffu) << 13;  // exponent and mantissa at float's place
  const uint32_t normal = magnitude + (112u << 23);                        // exponent bias 15 -> 127
  const uint32_t special = magnitude | 0x7f800000u;                        // infinity and NaN
  // A subnormal half is mantissa * 2^-24: exact as the difference of two floats with one exponent.
  const float subnormal = float_from_bits((113u << 23) + magnitude) - float_from_bits(113u << 23);
  const uint32_t exponent = half & 0x7c00u;
  const uint32_t quiet = (half & 0x3ffu) != 0 ? 0x400000u : 0u;
  const uint32_t finite = select_bits(exponent == 0, float_bits(subnormal), normal);
  return float_from_bits(select_bits(exponent == 0x7c00u, special | quiet, finite) | sign);
}

// Three cases computed side by side and chosen by masks: normal halves, rounded as bf16 is but at bit 13 and with the
// exponent's bias changed from 127 to 15; subnormal ones; infinity and NaN.
[[gnu::always_inline]] inline uint16_t float_to_f16(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Adding 0.5 leaves multiples of 2^-24, the step of subnormal halves, in the mantissa's low bits, rounded to even.
  const uint32_t small = select_bits(magnitude < (113u << 23), magnitude, 0);
  const uint32_t subnormal = float_bits(float_from_bits(small) + 0.5f) - (126u << 23);
  uint32_t half = select_bits(magnitude < (113u << 23), subnormal, normal);
  half = select_bits(magnitude >= 0x477ff000u, 0x7c00u, half);                              // rounds to infinity
  half = select_bits(magnitude > 0x7f800000u, 0x7e00u | (magnitude >> 13 & 0x3ffu), half);  // NaN
  return static_cast<uint16_t>(half | sign);
}

}  // namespace tessera
