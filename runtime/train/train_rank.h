// The training loop of one rank.
#pragma once

#include <functional>

#include "base/log.h"
#include "base/metrics.h"
#include "data/dataset.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "launch/run_signals.h"
#include "train/rank_info.h"

namespace tessera::host {

/// Callbacks of a run, on the rank's own thread.
struct RankObserver {
  /// Before the first step, when the run can no longer be refused. `version` is empty.
  std::function<void(const RunMetrics&)> on_start = [](const RunMetrics&) {};
  std::function<void(const StepMetrics&)> on_step = [](const StepMetrics&) {};
  /// Before and after each step: what signals have asked of this process so far.
  std::function<SignalRequests()> requests = [] { return SignalRequests{}; };
  /// After the last step, while everything is still open.
  std::function<void(RankRuntime&)> on_end = [](RankRuntime&) {};
};

/// Joins the other ranks, compiles and checks this rank's programs, and runs all steps, or those until any rank is
/// asked to stop; rank 0 reports to the log. Throws when anything fails, also when the run is lost (lost_run.h); the
/// other ranks then fail within their deadlines.
void train_rank(const Job& job, const Dataset& data, const RankInfo& info, const RankObserver& observer,
                const Log& log);

}  // namespace tessera::host
