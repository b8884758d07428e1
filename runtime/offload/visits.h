// A step as a list of visits: the time axis of offload policies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"
#include "tessera/offload.h"

namespace tessera::host {

/// The visits of a program, in list order; together they hold every action once. Pure.
std::vector<tsr_visit> visits_of(const Program& program);

/// By action: the index of its visit.
std::vector<uint32_t> visit_of_actions(std::span<const tsr_visit> visits);

}  // namespace tessera::host
