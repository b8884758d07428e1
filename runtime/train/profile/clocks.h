// How far the clocks of a job's hosts are apart.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "launch/key_value_store.h"

namespace tessera::host {

/// A rank's clock.
struct Clock {
  std::string name;                 ///< of ranks with equal names the clocks are one
  std::function<int64_t()> now_ns;  ///< CLOCK_MONOTONIC
};
/// That of this process: named after the boot of this machine, and the time namespace.
Clock own_clock();

/// What to add to this rank's times to have those of rank 0, and by how much that may be wrong.
struct ClockOffset {
  int64_t offset_ns = 0;
  int64_t error_ns = 0;
};

/// Compares this rank's clock with that of rank 0 through the store: a few messages there and back, of which the
/// fastest counts. Ranks whose clock is rank 0's send none. Collective, once a job; rank 0 returns the largest error of
/// all ranks, with offset 0. Throws what the store throws.
ClockOffset compare_clocks(KeyValueStore& store, int rank, int num_ranks, int64_t timeout_ms, const Clock& clock);

}  // namespace tessera::host
