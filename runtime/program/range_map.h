// A value for every integer below a limit, stored by range.
#pragma once

#include <boost/container/flat_map.hpp>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

namespace tessera::host {

template <class Value>
struct RangePart {
  uint64_t end = 0;
  Value value{};
};

/// A value for every integer in [0, end), kept as parts of equal value. Queries cut parts at their ends; assign joins
/// the parts it covers. `PartMap` has the parts by begin.
template <class Value, class PartMap>
class RangeMapOn {
 public:
  using Part = RangePart<Value>;
  using Iterator = typename PartMap::iterator;
  struct Parts {
    Iterator first, last;
    Iterator begin() const { return first; }
    Iterator end() const { return last; }
  };

  explicit RangeMapOn(uint64_t end) {
    if (end > 0) parts_.emplace(0, Part{end, {}});
  }

  /// The parts of [begin, end), as (begin, Part) in ascending order, cut at both ends. Nothing when begin >= end.
  Parts parts(uint64_t begin, uint64_t end) {
    if (begin >= end) return {parts_.end(), parts_.end()};
    cut(begin);
    const Iterator last = cut(end);
    return {parts_.lower_bound(begin), last};
  }

  /// Gives all of [begin, end) one value.
  void assign(uint64_t begin, uint64_t end, Value value) {
    if (begin >= end) return;
    const auto [first, last] = parts(begin, end);
    if (first == last || first->first != begin) {  // beyond the limit
      parts_.emplace_hint(parts_.erase(first, last), begin, Part{end, std::move(value)});
      return;
    }
    first->second = Part{end, std::move(value)};
    parts_.erase(std::next(first), last);
  }

 private:
  // The part that begins at `at`, after cutting the one that contains it.
  Iterator cut(uint64_t at) {
    const Iterator next = parts_.lower_bound(at);
    if ((next != parts_.end() && next->first == at) || next == parts_.begin()) return next;
    const Iterator holder = std::prev(next);
    if (holder->second.end <= at) return next;
    Part rest{holder->second.end, holder->second.value};
    holder->second.end = at;
    return parts_.emplace_hint(next, at, std::move(rest));
  }

  PartMap parts_;  // by begin; they touch and do not overlap
};

/// Of an arena, which may fall into a hundred thousand parts.
template <class Value>
using RangeMap = RangeMapOn<Value, std::map<uint64_t, RangePart<Value>>>;

/// Of a buffer: most have one part, for which nothing is allocated.
template <class Value>
using BufferRangeMap =
    RangeMapOn<Value,
               boost::container::flat_map<uint64_t, RangePart<Value>, std::less<>,
                                          boost::container::small_vector<std::pair<uint64_t, RangePart<Value>>, 1>>>;

}  // namespace tessera::host
