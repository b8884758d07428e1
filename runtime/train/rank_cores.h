#pragma once

#include "machine/core_binding.h"
#include "job/job.h"
#include "train/rank_info.h"

namespace tessera::host {

/// Binds the calling thread of a rank to its share of this machine's cores, if --bind-cores is on, the job computes on
/// the CPU, the ranks of this machine were started together and have a core for each of their threads.
/// [control-thread]
CoreBinding bind_rank(const Job& job, const RankInfo& info);

}  // namespace tessera::host
