// Which elements of a parameter a file holds: ranges, written once where they repeat at equal distances.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/ranges.hpp"

namespace tessera::host {

/// `count` ranges of num_elements each, which begin `stride` apart; a part of the columns of a matrix has one range a
/// row. Of a single range the stride is 0.
struct StridedRange {
  uint64_t offset = 0, num_elements = 0, count = 1, stride = 0;

  uint64_t total_elements() const { return num_elements * count; }
  bool operator==(const StridedRange&) const = default;
};

/// These ranges, which ascend and are disjoint, as few entries; those that touch become one.
std::vector<StridedRange> strided(std::span<const ElementRange> ranges);

/// Where an element lies among those of a list, and how many follow it without a gap; num_elements 0: it is not there.
struct ElementPlace {
  uint64_t position = 0, num_elements = 0;
};
ElementPlace find_element(std::span<const StridedRange> ranges, uint64_t element);

/// Ranges that may be looked at one by one, 16 bytes of memory each, for a whole index.
inline constexpr uint64_t kMaxRanges = uint64_t{1} << 22;
/// Whether the lists hold each of `num_elements` once. They may be from a file of anybody: no sum overflows, and where
/// more than `num_left` ranges have to be looked at the answer is false; `num_left` is less by them then. Lists that
/// repeat side by side, as the parts of a split dim do, are looked at as one.
bool cover_once(std::span<const StridedRange> ranges, uint64_t num_elements, uint64_t& num_left);

}  // namespace tessera::host
