// Sums over a row in two times 8 lanes, added as a balanced tree at the end: the same order at every instruction-set
// level. For files compiled once per level (see simd.h) only.
#pragma once

#include <cstddef>

namespace tessera::cpu::TESSERA_SIMD {

constexpr size_t kNumLanes = 8;
using Lanes = float __attribute__((vector_size(kNumLanes * sizeof(float))));

/// The first num_elements <= 8 elements of x; lanes beyond them hold `fill`.
inline __attribute__((always_inline)) void load(const float* x, size_t num_elements, float fill, Lanes& lanes) {
  if (num_elements < kNumLanes) lanes = Lanes{} + fill;
  __builtin_memcpy(&lanes, x, num_elements * sizeof(float));
}

inline __attribute__((always_inline)) float tree_sum(const Lanes& lanes) {
  float half[kNumLanes];
  __builtin_memcpy(half, &lanes, sizeof half);
  for (size_t width = kNumLanes / 2; width > 0; width /= 2)
    for (size_t l = 0; l < width; ++l)
      half[l] += half[l + width];
  return half[0];
}

/// The sum of terms: term(i, n, lanes) sets lanes to the terms of elements i to i + n - 1, n <= 8, and the lanes beyond
/// n to 0.
template <class Term>
inline __attribute__((always_inline)) float lane_sum(size_t num_elements, const Term& term) {
  Lanes even{}, odd{}, terms;
  size_t i = 0;
  for (; i + 2 * kNumLanes <= num_elements; i += 2 * kNumLanes) {
    term(i, kNumLanes, terms);
    even += terms;
    term(i + kNumLanes, kNumLanes, terms);
    odd += terms;
  }
  for (; i < num_elements; i += kNumLanes) {
    term(i, num_elements - i < kNumLanes ? num_elements - i : kNumLanes, terms);
    even += terms;
  }
  return tree_sum(even + odd);
}

}  // namespace tessera::cpu::TESSERA_SIMD
