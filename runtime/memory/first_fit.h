// First fit of live ranges into one arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/live_ranges.h"

namespace tessera::host {

struct Addresses {
  std::vector<uint64_t> address;  ///< of each live range; multiples of kBufferAlignment
  uint64_t top = 0;               ///< end of the highest one, guard included; `base` when there is none
};

/// The placement of one program's buffers in one memory.
struct FirstFit {
  const Program& program;
  const VectorClocks& clocks;
  std::span<const LiveRange> live_ranges;
  uint64_t base = 0;
  uint64_t guard_bytes = 0;
  Interference interference{program, clocks, live_ranges};  ///< of what one placement has placed so far

  /// Places the largest first, each at the lowest address from `base` on: an address that needs no new wait if the
  /// buffer then ends at or below `limit`, else the lowest one that added waits allow. Gives up, with a `top` above
  /// `max_top`, as soon as that is exceeded.
  Addresses operator()(uint64_t limit, uint64_t max_top);
};

}  // namespace tessera::host
