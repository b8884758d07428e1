// The columns [4, 8) of a matrix of 3 x 8 are the ranges 4-7, 12-15 and 20-23: {offset 4, 4 elements, 3 times, 8
// apart}. The part of a q|k|v weight, three blocks of columns, repeats at the distance of a block, since the blocks
// fill the row; so one entry says any part that a split of one dim makes. Cost: linear in ranges; a look-up is linear
// in entries. An entry of a few bytes can say millions of ranges: a check of coverage joins entries first.

#include "checkpoint/strided_range.h"

#include <algorithm>
#include <tuple>

namespace tessera::host {
namespace {

std::vector<ElementRange> joined(std::span<const ElementRange> ranges) {
  std::vector<ElementRange> result;
  for (const ElementRange& range : ranges) {
    if (range.is_empty()) continue;
    if (!result.empty() && result.back().end == range.begin)
      result.back().end = range.end;
    else
      result.push_back(range);
  }
  return result;
}

/// Whether every range of the entry lies below `num_elements`, and they are disjoint.
bool lies_within(const StridedRange& range, uint64_t num_elements) {
  if (range.num_elements == 0 || range.count == 0) return false;
  if (range.count > 1 && range.stride < range.num_elements) return false;
  uint64_t end = 0;
  return !__builtin_mul_overflow(range.count - 1, range.stride, &end) &&
         !__builtin_add_overflow(end, range.offset, &end) && !__builtin_add_overflow(end, range.num_elements, &end) &&
         end <= num_elements;
}

/// The same elements, of entries that lie within: those that repeat side by side are one, and those without gaps one
/// range. {0, 4, 3, 8} and {4, 4, 3, 8} are {0, 24, 1, 0}.
std::vector<StridedRange> folded(std::span<const StridedRange> ranges) {
  std::vector<StridedRange> sorted(ranges.begin(), ranges.end()), result;
  std::ranges::sort(sorted, {}, [](const StridedRange& r) { return std::tuple(r.count, r.stride, r.offset); });
  for (const StridedRange& range : sorted) {
    StridedRange* const last = result.empty() ? nullptr : &result.back();
    if (last && range.count > 1 && last->count == range.count && last->stride == range.stride &&
        last->offset + last->num_elements == range.offset && last->num_elements + range.num_elements <= range.stride)
      last->num_elements += range.num_elements;
    else
      result.push_back(range);
  }
  for (StridedRange& range : result)
    if (range.count > 1 && range.stride == range.num_elements) range = {range.offset, range.total_elements(), 1, 0};
  return result;
}

}  // namespace

/// Greedy: the second range of an entry decides its stride, and the first that does not fit begins a new entry.
std::vector<StridedRange> strided(std::span<const ElementRange> ranges) {
  std::vector<StridedRange> result;
  for (const ElementRange& range : joined(ranges)) {
    if (!result.empty() && result.back().num_elements == range.num_elements()) {
      StridedRange& last = result.back();
      if (last.count == 1) last.stride = range.begin - last.offset;
      if (last.offset + last.count * last.stride == range.begin) {
        ++last.count;
        continue;
      }
    }
    result.push_back({range.begin, range.num_elements(), 1, 0});
  }
  return result;
}

ElementPlace find_element(std::span<const StridedRange> ranges, uint64_t element) {
  uint64_t before = 0;
  for (const StridedRange& range : ranges) {
    if (element >= range.offset) {
      const uint64_t distance = element - range.offset;
      const uint64_t index = range.count > 1 ? distance / range.stride : 0;
      const uint64_t within = range.count > 1 ? distance % range.stride : distance;
      if (index < range.count && within < range.num_elements)
        return {before + index * range.num_elements + within, range.num_elements - within};
    }
    before += range.total_elements();
  }
  return {};
}

bool cover_once(std::span<const StridedRange> ranges, uint64_t num_elements, uint64_t& num_left) {
  uint64_t num_ranges = 0, total = 0;
  for (const StridedRange& range : ranges) {
    if (!lies_within(range, num_elements)) return false;  // so total_elements() and the sum below do not overflow
    total += range.total_elements();
    if (total > num_elements) return false;
  }
  if (total != num_elements) return false;
  const std::vector<StridedRange> few = folded(ranges);
  for (const StridedRange& range : few) {
    if (range.count > num_left - num_ranges) return false;
    num_ranges += range.count;
  }
  num_left -= num_ranges;
  std::vector<ElementRange> all;
  all.reserve(num_ranges);
  for (const StridedRange& range : few)
    for (uint64_t i = 0; i < range.count; ++i)
      all.push_back({range.offset + i * range.stride, range.offset + i * range.stride + range.num_elements});
  std::ranges::sort(all, {}, &ElementRange::begin);
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i - 1].end > all[i].begin) return false;
  return true;
}

}  // namespace tessera::host
