// The steps of a run on one rank, and what happens between them: evaluations, checkpoints, requests.
#pragma once

#include "base/log.h"
#include "checkpoint/index.h"
#include "data/dataset.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "train/checks/replica_check.h"
#include "train/meters/memory_meter.h"
#include "train/meters/move_meter.h"
#include "train/meters/time_meter.h"
#include "train/profile/profiler.h"
#include "train/rank_info.h"
#include "train/rank_observer.h"
#include "train/report/report.h"
#include "train/saving/save.h"

namespace tessera::host {

/// What a rank trains with; borrowed.
struct RankParts {
  const Job& job;
  const RunData& data;
  const RankInfo& info;
  const RankObserver& observer;
  const Log& log;        ///< of all ranks
  const Log& first_log;  ///< of rank 0: for lines that are the same on all ranks
  RankRuntime& runtime;
  ReplicaCheck& replicas;
  MemoryMeter& meter;
  MoveMeter& moves;
  Profiler& profiler;
  TimeMeter& times;
};

/// Runs the steps after `state` until the last one, or until any rank is asked to stop; evaluates and saves where the
/// flags ask for it. Collective. Throws when anything fails, also when the run is lost (lost_run.h). [control-thread]
RunEnd train_steps(const RankParts& parts, CheckpointSaver& saver, const RunState& state);
/// The evaluation of `tessera eval`: one, without steps. Collective; throws what the runtime throws. [control-thread]
void evaluate_once(const RankParts& parts);

}  // namespace tessera::host
