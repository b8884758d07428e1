// A small collective whose result is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tessera/communicator.h"

namespace tessera::host {

/// The ranks of a communicator. Numbers that a probe sends follow from the world rank that sends them, so that a
/// communicator which is connected to the members of another group gives other results.
struct ProbedGroup {
  std::vector<int> world_ranks;  ///< of the members, in order
  int own = 0;                   ///< this rank's position among them

  int count() const { return static_cast<int>(world_ranks.size()); }
  int rank(int member) const { return world_ranks[static_cast<size_t>(member)]; }
  int own_rank() const { return rank(own); }
};

/// A collective over ranges of one block of memory. Everything between and around the ranges must stay unchanged.
struct Probe {
  struct Range {
    uint64_t begin, end;  ///< bytes
  };

  std::string name;                   ///< "all_gather"
  tsr_collective collective{};        ///< without pointers, stream and time-out
  std::vector<uint64_t> counts;       ///< of `collective`; empty: NULL
  std::vector<uint64_t> recv_counts;  ///< of `collective`; empty: NULL
  std::vector<std::byte> before;      ///< the block
  std::vector<std::byte> after;       ///< the block afterwards
  std::vector<bool> is_defined;       ///< for each byte of `after`
  std::vector<Range> ranges;
  int64_t send = -1, recv = -1;  ///< bytes of the block before the operand; -1: none
  float tolerance = 0;           ///< of float32, relative
  bool is_first_sum = false;     ///< made by sum_probe
};

/// The float32 number `index` of a block.
inline float number_at(const std::vector<std::byte>& block, uint64_t index) {
  float number;
  std::memcpy(&number, &block[index * sizeof number], sizeof number);
  return number;
}

}  // namespace tessera::host
