// The times of a program's collectives, and how much they and compute slow one another down.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"
#include "rates/collective_group.h"
#include "rates/kernel_load.h"
#include "rates/rates.h"

namespace tessera::host {

/// The sizes, 2 or more, of the groups in which the program's collectives take place, in ascending order. Pure.
std::vector<int> group_sizes(const Program& program);

/// Measures the kinds of collectives that the program has in groups of this size, for sizes up to its largest.
/// Collective over the group; `compute` runs on all its ranks. [control-thread]
CollectiveRates measure_collectives(CollectiveGroup& group, const Program& program, const std::string& communicator,
                                    const KernelLoad& compute);

}  // namespace tessera::host
