// Changes of flags that name installed plugins, or options of the job's own.
#pragma once

#include <vector>

#include "plan/advice/change.h"

namespace tessera::host {

/// Each installed strategy that declares that it shards parameters, on the batch axis; without those of the job.
std::vector<Change> sharding_strategies(const Job& job);
/// More ranks, over which the first installed strategy splits tensors; empty when an axis of the job does that already.
Family split_tensors(const Job& job);

/// Each installed offload policy, after those of the job: to host memory; and to files where the job has a folder for
/// them, or where host memory is limited.
std::vector<Family> more_offload(const Job& job);
/// What the job's own policies could do with less host memory: a smaller share, files.
std::vector<Family> smaller_offload(const Job& job);

}  // namespace tessera::host
