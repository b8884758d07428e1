// How much the clocks of a job's hosts differ.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "launch/key_value_store.h"

namespace tessera::host {

/// A rank's clock.
struct Clock {
  std::string name;                 ///< ranks with equal names share a clock
  std::function<int64_t()> now_ns;  ///< CLOCK_MONOTONIC
};
/// The clock of this process, named after the boot of this machine and the time namespace.
Clock own_clock();

/// The offset that turns this rank's times into those of rank 0, and its maximum error.
struct ClockOffset {
  int64_t offset_ns = 0;
  int64_t error_ns = 0;
};

/// Compares this rank's clock with that of rank 0 through the store: the fastest of a few round trips counts. Ranks
/// whose clock is rank 0's send none. Collective, once a job; rank 0 returns the largest error of all ranks, with
/// offset 0. Throws what the store throws.
ClockOffset compare_clocks(KeyValueStore& store, int rank, int num_ranks, int64_t timeout_ms, const Clock& clock);

}  // namespace tessera::host
