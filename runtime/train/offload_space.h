// Room for files of --offload-dir, before any rank reserves its own.
#pragma once

#include "compile/compile.h"
#include "job/job.h"
#include "train/rank_info.h"

namespace tessera::host {

/// Throws RESOURCE_EXHAUSTED on all ranks when the folders of some machine lack space for what its ranks keep in files
/// together. Collective; does nothing in a job without --offload.
void check_offload_space(const Job& job, const RankPrograms& programs, const RankInfo& info);

}  // namespace tessera::host
