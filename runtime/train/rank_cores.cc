// Without it Linux moves the threads of ranks, most of which wake another and sleep, onto a core where one computes,
// while another core is idle (docs/decisions/0052-cores-of-ranks.md).

#include "train/rank_cores.h"

namespace tessera::host {

CoreBinding bind_rank(const Job& job, const RankInfo& info) {
  const int ranks = info.num_local_ranks;
  const bool has_cores = int64_t{threads_per_rank(job.config, ranks)} * ranks <= num_cores();
  if (!job.config.bind_cores || !job.computes_on_host() || !info.started_together || ranks < 2 || !has_cores)
    return CoreBinding({});
  return CoreBinding(share_of_cores(cores_of_process(), info.local_rank, ranks));
}

}  // namespace tessera::host
