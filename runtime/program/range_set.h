// A set of half-open ranges of integers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::host {

/// For sets of few ranges: linear in them at worst.
class RangeSet {
 public:
  void add(uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    const auto first = std::ranges::lower_bound(ranges_, begin, {}, &Range::second);
    auto last = first;  // of those that it touches, one past the last
    while (last != ranges_.end() && last->first <= end)
      end = std::max(end, (last++)->second);
    if (first == last) {
      ranges_.insert(first, {begin, end});
      return;
    }
    *first = {std::min(begin, first->first), end};
    ranges_.erase(first + 1, last);
  }

  /// The parts of [begin, end) that are not in the set, ascending.
  std::vector<std::pair<uint64_t, uint64_t>> gaps(uint64_t begin, uint64_t end) const {
    std::vector<Range> result;
    for (auto next = first_beyond(begin); next != ranges_.end() && next->first < end; ++next) {
      if (begin < next->first) result.emplace_back(begin, next->first);
      begin = next->second;
    }
    if (begin < end) result.emplace_back(begin, end);
    return result;
  }

  bool empty() const { return ranges_.empty(); }
  bool contains(uint64_t begin, uint64_t end) const {
    const auto next = first_beyond(begin);
    return begin >= end || (next != ranges_.end() && next->first <= begin && end <= next->second);
  }
  /// True when no element of [begin, end) is in the set.
  bool disjoint(uint64_t begin, uint64_t end) const {
    const auto next = first_beyond(begin);
    return begin >= end || next == ranges_.end() || end <= next->first;
  }

 private:
  using Range = std::pair<uint64_t, uint64_t>;

  /// The first range that ends after `at`.
  std::vector<Range>::const_iterator first_beyond(uint64_t at) const {
    return std::ranges::upper_bound(ranges_, at, {}, &Range::second);
  }

  std::vector<Range> ranges_;  // ascending; disjoint and not touching
};

}  // namespace tessera::host
