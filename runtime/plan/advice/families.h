// The changes of flags that may make a job fit its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/advice/change.h"

namespace tessera::host {

/// Changes of one kind, in ascending size: the first that fits is offered.
using Family = std::vector<Change>;

/// What may need less of a memory (TSR_MEMORY_*) than the job does, from small changes to large ones. Plans a few of
/// them to see whether they do.
std::vector<Family> families_for(const Job& job, uint32_t memory, const NeededMemory& needed);

}  // namespace tessera::host
