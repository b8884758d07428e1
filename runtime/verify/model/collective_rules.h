// What collectives make of the contents of the ranks that take part in them.
#pragma once

#include <vector>

#include "program/collective_operands.h"
#include "verify/collective_matching.h"
#include "verify/model/walked_ranks.h"

namespace tessera::host {

/// Applies the collective that these actions are together.
void apply_collective(const WalkedRanks& ranks, const std::vector<ActionRef>& members);

}  // namespace tessera::host
