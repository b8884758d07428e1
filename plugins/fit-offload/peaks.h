// The bytes in use over the visits of a step, while moves change them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::fit {

/// A number for each visit. Both calls are O(log visits).
class Peaks {
 public:
  /// At least one.
  explicit Peaks(std::span<const int64_t> bytes);

  /// Adds to the visits first..last, inclusive.
  void add(uint32_t first, uint32_t last, int64_t bytes) { add(1, 0, num_leaves_ - 1, first, last, bytes); }
  /// The largest number.
  int64_t most() const { return nodes_[1].most; }
  /// The first visit that has it.
  uint32_t where() const;

 private:
  struct Node {
    int64_t most = 0;   // below it, its own `added` included
    int64_t added = 0;  // to all below it
  };

  void add(uint32_t node, uint32_t begin, uint32_t end, uint32_t first, uint32_t last, int64_t bytes);
  void sum_up(uint32_t node);

  uint32_t num_leaves_;
  std::vector<Node> nodes_;  // a complete tree: node n has the children 2n and 2n + 1
};

}  // namespace tessera::fit
