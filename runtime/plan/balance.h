// How evenly the ranks share the memory that is kept between steps.
#pragma once

#include <cstdint>
#include <string>

#include "compile/compile.h"

namespace tessera::host {

/// Bytes of persistent device buffers by rank.
struct Balance {
  uint64_t min_bytes = 0, max_bytes = 0;
  double mean_bytes = 0;
  int min_rank = 0, max_rank = 0;  ///< the first such ranks
  /// A parameter that one rank owns whole and whose state alone is above the mean, so that more ranks do not help.
  /// Empty when there is none, or when all ranks hold the same.
  std::string bottleneck;
  uint64_t bottleneck_bytes = 0;

  bool is_even() const { return min_bytes == max_bytes; }
  /// The largest share over the mean, minus one.
  double imbalance() const { return mean_bytes > 0 ? static_cast<double>(max_bytes) / mean_bytes - 1 : 0; }
};

Balance balance_of(const JobPrograms& job);

}  // namespace tessera::host
