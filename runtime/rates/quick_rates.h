// The two most important rates of a machine, measured quickly.
#pragma once

#include <optional>

#include "job/job.h"

namespace tessera::host {

struct QuickRates {
  double operations_per_second = 0;  ///< of one matrix product, of the size of a small model's
  double bytes_per_second = 0;       ///< read and written by a copy within memory
  int num_threads = 1;               ///< used: those of one rank, if all ranks are on this machine
};

/// Takes a tenth of a second and 64 MiB. Empty unless the job computes on the CPU, and if its device refuses.
/// [control-thread]
std::optional<QuickRates> quick_rates(const Job& job);

}  // namespace tessera::host
