// A machine's two rates that matter most, measured in a moment.
#pragma once

#include <optional>

#include "job/job.h"

namespace tessera::host {

struct QuickRates {
  double operations_per_second = 0;  ///< of one matrix product, of the size of a small model's
  double bytes_per_second = 0;       ///< read and written by a copy within memory
  int num_threads = 1;               ///< that did it: those of one rank, where all ranks are on this machine
};

/// Takes a tenth of a second and 64 MiB. Nothing unless the job computes on the CPU, or when its device refuses.
/// [control-thread]
std::optional<QuickRates> quick_rates(const Job& job);

}  // namespace tessera::host
