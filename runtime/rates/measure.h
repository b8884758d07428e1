// `tessera bench rates`: what this machine does in a second, for the ops of one job.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "compile/compile.h"
#include "exec/communicators.h"
#include "job/job.h"
#include "launch/key_value_store.h"
#include "rates/rates.h"

namespace tessera::host {

/// The current time, in the format of rates files.
std::string time_of_measurement();

/// The measuring rank. All ranks of the job measure at the same time, as they will run.
struct RatesRank {
  int rank = 0, local_rank = 0;
  int num_ranks = 1, num_local_ranks = 1;
  std::shared_ptr<KeyValueStore> store;  ///< null: one rank
  CommunicatorSetup communicator;        ///< without an `api`: one rank
  std::function<void()> barrier;         ///< returns when all ranks have called it; not called for one rank
};

/// Measures the ops of the program's step, copies, collectives where there are several ranks, and files where the job
/// has --offload-dir, on the device of the job as a rank would open it. Takes some seconds, and the memory of the
/// largest op or 1 GiB. Collective over all ranks of the job. Throws what the device and the communicator report, and
/// what FileStore throws. [control-thread]
Rates measure_rates(const Job& job, const RankPrograms& programs, const RatesRank& rank, const Log& log);

}  // namespace tessera::host
