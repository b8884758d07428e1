// The changes of flags that may make a job fit its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/advice/change.h"

namespace tessera::host {

/// What may need less of a memory (TSR_MEMORY_*) than the job does, from small changes to large ones. Plans a few of
/// them to see whether they do.
std::vector<Family> families_for(const Job& job, uint32_t memory, const NeededMemory& needed);
/// For a job of which one unit is too large for a device: tensors split over ranks, and offload of the rest.
std::vector<Family> split_and_offload(const Job& job);

}  // namespace tessera::host
