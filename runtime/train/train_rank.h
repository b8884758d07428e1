// The training loop of one rank.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "base/metrics.h"
#include "data/dataset.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "launch/key_value_store.h"

namespace tessera::host {

/// A rank's place in the run.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;
  int num_local_ranks = 1;
  bool is_local = true;  ///< all ranks are on this machine
  std::shared_ptr<KeyValueStore> store;
  std::function<bool()> cancelled = [] { return false; };
  std::string store_host = {};  ///< where the store is; empty: in this process
};

/// Who looks on. Called on the rank's own thread.
struct RankObserver {
  /// Before the first step, when nothing can refuse the run any more. `version` is empty.
  std::function<void(const RunMetrics&)> on_start = [](const RunMetrics&) {};
  std::function<void(const StepMetrics&)> on_step = [](const StepMetrics&) {};
  /// After the last step, before anything is closed.
  std::function<void(RankRuntime&)> on_end = [](RankRuntime&) {};
};

/// Joins the other ranks, compiles and checks this rank's programs, and runs all steps; rank 0 reports to the log.
/// Throws what went wrong, also that the run is lost (lost_run.h); the other ranks then fail within their deadlines.
void train_rank(const Job& job, const Dataset& data, const RankInfo& info, const RankObserver& observer,
                const Log& log);

}  // namespace tessera::host
