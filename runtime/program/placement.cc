#include "program/placement.h"

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>

#include "program/memory.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

struct Range {
  uint64_t begin, end;
  auto operator<=>(const Range&) const = default;
};

// The address ranges given out so far. Of thousands of lifetimes many have the same one, so a query meets each once.
class Ranges {
 public:
  explicit Ranges(size_t num_lifetimes) : range_of_(num_lifetimes) {}

  void give(uint32_t lifetime, Range range) {
    const auto [found, is_new] = numbers_.try_emplace(range, static_cast<uint32_t>(ranges_.size()));
    if (is_new) {
      ranges_.push_back(range);
      seen_in_.push_back(0);
    }
    range_of_[lifetime] = found->second;
  }

  void start_query() {
    ++query_;
    taken_.clear();
  }
  void avoid(uint32_t lifetime) {
    const uint32_t number = range_of_[lifetime];
    if (seen_in_[number] == query_) return;
    seen_in_[number] = query_;
    taken_.push_back(ranges_[number]);
  }
  // The lowest gap between what is to be avoided. A heap, as the gap is often found before all are sorted.
  uint64_t lowest_gap(uint64_t base, uint64_t num_bytes) {
    std::ranges::make_heap(taken_, std::greater{});
    uint64_t address = base;
    while (!taken_.empty() && taken_.front().begin < address + num_bytes) {
      address = std::max(address, taken_.front().end);
      std::ranges::pop_heap(taken_, std::greater{});
      taken_.pop_back();
    }
    return address;
  }

 private:
  std::map<Range, uint32_t> numbers_;
  std::vector<Range> ranges_;
  std::vector<uint32_t> range_of_;  // of each lifetime
  std::vector<uint64_t> seen_in_;   // of each range: the last query that met it
  uint64_t query_ = 0;
  std::vector<Range> taken_;
};

}  // namespace

uint64_t footprint_bytes(const Buffer& buffer, uint64_t guard_bytes) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 48;
  if (buffer.num_elements > kMaxElements)
    throw Error(TSR_E_INVALID_ARGUMENT, "buffer " + buffer.name + " has " + std::to_string(buffer.num_elements) +
                                            " elements; the limit is " + std::to_string(kMaxElements));
  return (buffer.num_bytes() + guard_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

Placement FirstFit::operator()(uint64_t limit, uint64_t max_top) const {
  std::vector<uint64_t> num_bytes;
  for (const Lifetime& lifetime : lifetimes)
    num_bytes.push_back(footprint_bytes(*lifetime.buffer, guard_bytes));
  std::vector<uint32_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater{}, [&](uint32_t i) { return num_bytes[i]; });

  Placement result{std::vector<uint64_t>(lifetimes.size(), base), base};
  Conflicts conflicts(program, clocks, lifetimes);
  Ranges ranges(lifetimes.size());
  const auto avoid = [&](uint32_t i) { ranges.avoid(i); };
  for (const uint32_t i : order) {
    if (num_bytes[i] == 0 || result.top > max_top) break;
    uint64_t& address = result.address[i];
    ranges.start_query();
    if (base + num_bytes[i] <= limit) conflicts.unordered(i, avoid);
    address = ranges.lowest_gap(base, num_bytes[i]);
    if (address + num_bytes[i] > limit) {
      ranges.start_query();
      conflicts.unorderable(i, avoid);
      address = ranges.lowest_gap(base, num_bytes[i]);
    }
    conflicts.add(i);
    ranges.give(i, {address, address + num_bytes[i]});
    result.top = std::max(result.top, address + num_bytes[i]);
  }
  return result;
}

}  // namespace tessera
