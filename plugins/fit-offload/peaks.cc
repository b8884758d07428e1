// A segment tree: what is added to a range is kept at the O(log n) nodes that cover it, and each node knows the largest
// sum on a path below it.

#include "peaks.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tessera::fit {

Peaks::Peaks(std::span<const int64_t> bytes)
    : num_leaves_(static_cast<uint32_t>(std::bit_ceil(bytes.size()))), nodes_(size_t{2} * num_leaves_) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::min() / 2;  // so that sums with it do not overflow
  for (uint32_t i = 0; i < num_leaves_; ++i)
    nodes_[num_leaves_ + i].most = i < bytes.size() ? bytes[i] : kNone;
  for (uint32_t node = num_leaves_; --node > 0;)
    sum_up(node);
}

uint32_t Peaks::where() const {
  uint32_t node = 1;
  while (node < num_leaves_)
    node = 2 * node + (nodes_[2 * node].most < nodes_[2 * node + 1].most ? 1 : 0);
  return node - num_leaves_;
}

void Peaks::add(uint32_t node, uint32_t begin, uint32_t end, uint32_t first, uint32_t last, int64_t bytes) {
  if (end < first || last < begin) return;
  if (first <= begin && end <= last) {
    nodes_[node].most += bytes;
    nodes_[node].added += bytes;
    return;
  }
  const uint32_t middle = begin + (end - begin) / 2;
  add(2 * node, begin, middle, first, last, bytes);
  add(2 * node + 1, middle + 1, end, first, last, bytes);
  sum_up(node);
}

void Peaks::sum_up(uint32_t node) {
  nodes_[node].most = nodes_[node].added + std::max(nodes_[2 * node].most, nodes_[2 * node + 1].most);
}

}  // namespace tessera::fit
