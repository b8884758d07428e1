// The whole run of one rank.
#pragma once

#include "base/log.h"
#include "data/dataset.h"
#include "exec/communicators.h"
#include "job/job.h"
#include "plugins/host_services.h"
#include "train/rank_info.h"
#include "train/rank_observer.h"

namespace tessera::host {

/// Joins the other ranks, compiles and checks this rank's programs, and runs all steps and evaluations, or those until
/// any rank is asked to stop; rank 0 reports to the log. Throws when anything fails, also when the run is lost
/// (lost_run.h); the other ranks then fail within their deadlines.
void train_rank(const Job& job, const RunData& data, const RankInfo& info, const RankObserver& observer,
                const Log& log);

/// How this rank creates communicators; without an `api` where the job has none. Borrows job and host.
CommunicatorSetup communicator_setup(const Job& job, const RankInfo& info, const HostServices& host);

}  // namespace tessera::host
