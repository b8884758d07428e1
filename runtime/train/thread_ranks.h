// All ranks of a run as threads of this process.
#pragma once

#include <functional>

#include "data/dataset.h"
#include "job/job.h"
#include "train/rank_info.h"
#include "train/rank_observer.h"

namespace tessera::host {

/// Runs `body` for each of `num_ranks` ranks on its own thread and waits for all. When one throws, `cancelled` of the
/// others becomes true and their store is closed, and the error of the rank that failed first is thrown, with its
/// number. Throws RESOURCE_EXHAUSTED when the threads cannot be started.
void run_thread_ranks(int num_ranks, const std::function<void(const RankInfo& info)>& body);

/// train_rank() for every rank of the job, as run_thread_ranks() does. `observer(rank)` returns a rank's observer, and
/// `log(rank)` its log.
void train_thread_ranks(const Job& job, const RunData& data, const std::function<RankObserver(int rank)>& observer,
                        const std::function<Log(int rank)>& log);
/// The same with `log` for rank 0, and the warnings of the others on standard error.
void train_thread_ranks(const Job& job, const RunData& data, const std::function<RankObserver(int rank)>& observer,
                        const Log& log);

}  // namespace tessera::host
