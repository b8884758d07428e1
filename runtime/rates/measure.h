// `tessera bench rates`: what this machine does in a second, for the ops of one job.
#pragma once

#include "base/log.h"
#include "compile/compile.h"
#include "job/job.h"
#include "rates/rates.h"

namespace tessera::host {

/// As a rank of the job takes on a machine that has all of its ranks. Pure but for the number of cores.
int threads_of_a_rank(const Job& job);

/// Measures the ops of the rank's step, copies, and files where the job has --offload-dir, on the device of the job as
/// a rank would open it. Takes some seconds, and the memory of the largest op or 1 GiB. Throws what the device reports,
/// and what FileStore throws. [control-thread]
Rates measure_rates(const Job& job, const RankPrograms& programs, const Log& log);

}  // namespace tessera::host
