// Rows of bfloat16 values, worked on in float32 a cache's worth at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cpu-device/kernels/elementwise/elementwise.h"
#include "cpu-device/kernels/rows.h"

namespace tessera::cpu {

/// to = from, exactly.
inline void widen(const uint16_t* from, uint64_t num_elements, float* to) {
  TESSERA_SIMD_CHOOSE(cast_bf16_f32)(to, from, num_elements);
}
/// to = from, rounded to nearest even.
inline void narrow(const float* from, uint64_t num_elements, uint16_t* to) {
  TESSERA_SIMD_CHOOSE(cast_f32_bf16)(to, from, num_elements);
}

/// Elements in float32 that a thread works on at a time; a few such arrays fit its first-level cache.
inline constexpr uint64_t kBlockElements = 1024;
using Block = std::array<float, kBlockElements>;

/// Calls body(begin, end) for the blocks of [begin, end).
template <class Body>
void for_each_block(uint64_t begin, uint64_t end, const Body& body) {
  for (; begin < end; begin += kBlockElements)
    body(begin, std::min(end, begin + kBlockElements));
}

/// to (+)= from, rounded once; `from` is overwritten.
inline void store(float* from, uint64_t num_elements, bool accumulate, uint16_t* to) {
  if (!accumulate) return narrow(from, num_elements, to);
  const auto add = TESSERA_SIMD_CHOOSE(add);
  for_each_block(0, num_elements, [&](uint64_t begin, uint64_t end) {
    Block before;
    widen(to + begin, end - begin, before.data());
    add(from + begin, before.data(), end - begin, from + begin);
    narrow(from + begin, end - begin, to + begin);
  });
}

/// sums[c] (+)= sum over the dense rows r of x[r][c], as parallel_rows.h has it for float32.
void sum_columns(const uint16_t* x, uint64_t num_rows, uint64_t num_columns, bool accumulate, float* sums,
                 int num_threads);

}  // namespace tessera::cpu
