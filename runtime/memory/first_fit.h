// First fit of live_ranges into one arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/live_ranges.h"

namespace tessera::host {

struct Addresses {
  std::vector<uint64_t> address;  ///< of each live_range; multiples of kBufferAlignment
  uint64_t top = 0;               ///< end of the highest one, guard included; `base` when there is none
};

/// Bytes that a buffer takes in an arena. Throws INVALID_ARGUMENT for a buffer that no memory can hold.
uint64_t footprint_bytes(const Buffer& buffer, uint64_t guard_bytes);

/// How buffers are placed: where they may go, and what was asked.
struct FirstFit {
  const Program& program;
  const VectorClocks& clocks;
  std::span<const LiveRange> live_ranges;
  uint64_t base = 0;
  uint64_t guard_bytes = 0;

  /// Largest first, each at the lowest address from `base` on. A place that needs no new wait is taken if it ends at or
  /// below `limit`, else the lowest place that the host may reach with waits. Gives up, with a `top` above `max_top`,
  /// as soon as that is passed.
  Addresses operator()(uint64_t limit, uint64_t max_top) const;
};

}  // namespace tessera::host
