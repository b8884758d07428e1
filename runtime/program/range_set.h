// A set of half-open ranges of integers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace tessera::host {

class RangeSet {
 public:
  void add(uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
    while (next != ranges_.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = ranges_.erase(next);
    }
    ranges_.emplace(begin, end);
  }

  /// The parts of [begin, end) that are not in the set, ascending.
  std::vector<std::pair<uint64_t, uint64_t>> gaps(uint64_t begin, uint64_t end) const {
    std::vector<std::pair<uint64_t, uint64_t>> result;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin()) begin = std::max(begin, std::prev(next)->second);
    for (; next != ranges_.end() && next->first < end; ++next) {
      if (begin < next->first) result.emplace_back(begin, next->first);
      begin = next->second;
    }
    if (begin < end) result.emplace_back(begin, end);
    return result;
  }

  bool contains(uint64_t begin, uint64_t end) const { return gaps(begin, end).empty(); }
  /// True when no element of [begin, end) is in the set.
  bool disjoint(uint64_t begin, uint64_t end) const {
    const auto missing = gaps(begin, end);
    return begin >= end || (missing.size() == 1 && missing[0] == std::pair(begin, end));
  }

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin -> end; disjoint and not touching
};

}  // namespace tessera::host
