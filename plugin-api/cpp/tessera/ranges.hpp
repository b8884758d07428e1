// SPDX-License-Identifier: Apache-2.0
// Arithmetic of ranges, contiguous runs of elements or bytes: rounding, overlap, even parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tessera {

/// n / divisor, rounded up.
template <class T>
constexpr T divide_up(T n, T divisor) {
  return (n + divisor - 1) / divisor;
}
/// The smallest multiple of `multiple` that is not below n.
template <class T>
constexpr T round_up(T n, T multiple) {
  return divide_up(n, multiple) * multiple;
}

/// Elements [begin, end).
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t num_elements() const { return end - begin; }
  bool is_empty() const { return begin >= end; }
  bool overlaps(const ElementRange& other) const { return begin < other.end && other.begin < end; }
  /// May be empty.
  ElementRange intersection(const ElementRange& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
  bool operator==(const ElementRange&) const = default;
};

/// Writes num_parts + 1 offsets that divide num_elements evenly, at multiples of 64 elements. For example 1000 elements
/// over 3 ranks are 16 units of 64: 6, 5 and 5 of them, so offsets 0, 384, 704, 1000. At multiples of 64 elements no
/// two ranks write to one cache line of an aligned buffer, whatever the dtype.
inline void divide_evenly(uint64_t num_elements, int num_parts, std::vector<uint64_t>& offsets) {
  constexpr uint64_t kUnit = 64;
  const auto n = static_cast<uint64_t>(num_parts);
  const uint64_t units = divide_up(num_elements, kUnit);
  offsets.assign(n + 1, num_elements);
  for (uint64_t i = 0; i < n; ++i)
    offsets[i] = std::min(num_elements, (units / n * i + std::min(i, units % n)) * kUnit);
}

}  // namespace tessera
