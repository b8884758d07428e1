// First fit, largest buffer first (first fit decreasing). Each buffer takes the lowest gap between the buffers that it
// interferes with:
//
//     address ->   |#### %61 ####|..gap..|## %64 ##|....    a buffer that interferes with both goes into the gap, if
//                                                               it fits there, else after %64
//
// Large ones first, because small ones fit into the gaps that are left; equal ones in order of their live ranges, so
// the result is deterministic and equal on all ranks of a class.
//
// Each placement scans all address ranges given out so far, so the whole is quadratic, with a small factor: 400 layers
// take 0.4 s, 3,000 layers 8 s (decision 0025). Interfering ranges are marked with the number of the query;
// collecting them in a heap was five times slower.

#include "memory/first_fit.h"

#include <algorithm>
#include <compare>
#include <numeric>

#include "memory/footprint.h"

namespace tessera::host {
namespace {

struct Range {
  uint64_t begin, end;
  auto operator<=>(const Range&) const = default;
};

// The address ranges given out so far, by address. Many live ranges have the same one, which is kept once.
class Ranges {
 public:
  explicit Ranges(size_t num_live_ranges) : range_of_(num_live_ranges) {}

  void give(uint32_t live_range, Range range) {
    const auto at = std::ranges::lower_bound(by_address_, range, {}, &Numbered::range);
    if (at != by_address_.end() && at->range == range) {
      range_of_[live_range] = at->number;
      return;
    }
    range_of_[live_range] = static_cast<uint32_t>(seen_in_.size());
    by_address_.insert(at, {range, range_of_[live_range]});
    seen_in_.push_back(0);
  }

  void start_query() { ++query_; }
  void avoid(uint32_t live_range) { seen_in_[range_of_[live_range]] = query_; }

  // The lowest gap between what is to be avoided; alignments are powers of two.
  uint64_t lowest_gap(uint64_t base, uint64_t num_bytes, uint64_t alignment) const {
    const auto aligned = [&](uint64_t address) { return (address + alignment - 1) & ~(alignment - 1); };
    uint64_t address = aligned(base);
    for (const Numbered& given : by_address_) {
      if (given.range.begin >= address + num_bytes) break;
      if (given.range.end > address && seen_in_[given.number] == query_) address = aligned(given.range.end);
    }
    return address;
  }

 private:
  struct Numbered {
    Range range;
    uint32_t number;
  };
  std::vector<Numbered> by_address_;
  std::vector<uint32_t> range_of_;  // of each live range: the number of its range
  std::vector<uint32_t> seen_in_;   // of each range: the last query that avoids it
  uint32_t query_ = 0;
};

}  // namespace

Addresses FirstFit::operator()(uint64_t limit, uint64_t max_top) {
  std::vector<uint64_t> num_bytes;
  for (const LiveRange& live_range : live_ranges)
    num_bytes.push_back(footprint_bytes(*live_range.buffer, guard_bytes));
  std::vector<uint32_t> order(live_ranges.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater{}, [&](uint32_t i) { return num_bytes[i]; });

  Addresses result{std::vector<uint64_t>(live_ranges.size(), base), base};
  interference.clear();
  Ranges ranges(live_ranges.size());
  const auto avoid = [&](uint32_t i) { ranges.avoid(i); };
  for (const uint32_t i : order) {
    if (num_bytes[i] == 0 || result.top > max_top) break;
    uint64_t& address = result.address[i];
    const auto lowest_gap = [&] { return ranges.lowest_gap(base, num_bytes[i], live_ranges[i].alignment); };
    ranges.start_query();
    interference.unorderable(i, avoid);
    address = lowest_gap();
    if (address + num_bytes[i] <= limit) {  // else one without a wait is beyond it too
      interference.orderable(i, avoid);
      if (const uint64_t without_wait = lowest_gap(); without_wait + num_bytes[i] <= limit) address = without_wait;
    }
    interference.add(i);
    ranges.give(i, {address, address + num_bytes[i]});
    result.top = std::max(result.top, address + num_bytes[i]);
  }
  return result;
}

}  // namespace tessera::host
