// A value for every integer below a limit, stored by range.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace tessera::host {

/// A value for every integer in [0, end), kept as parts of equal value. Queries cut parts at their ends; assign joins
/// the parts it covers.
template <class Value>
class RangeMap {
 public:
  struct Part {
    uint64_t end = 0;
    Value value{};
  };
  using Iterator = typename std::map<uint64_t, Part>::iterator;
  struct Parts {
    Iterator first, last;
    Iterator begin() const { return first; }
    Iterator end() const { return last; }
  };

  explicit RangeMap(uint64_t end) {
    if (end > 0) parts_.emplace(0, Part{end, {}});
  }

  /// The parts of [begin, end), as (begin, Part) in ascending order, cut at both ends. Nothing when begin >= end.
  Parts parts(uint64_t begin, uint64_t end) {
    if (begin >= end) return {parts_.end(), parts_.end()};
    const Iterator first = cut(begin);
    return {first, cut(end)};
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

  std::map<uint64_t, Part> parts_;  // by begin; they touch and do not overlap
};

}  // namespace tessera::host
