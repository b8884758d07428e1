// What rank 0 logs about a run.
#pragma once

#include "base/log.h"
#include "base/metrics.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "train/loss_scaler.h"
#include "train/meters/memory_meter.h"
#include "train/meters/move_meter.h"

namespace tessera::host {

/// "dp=2 ddp, tp=2 tensor"
std::string mesh_text(const Job& job);
/// Model, mesh, data and memory, before the first step; warnings about rates that cannot work.
void report_start(const Log& log, const Job& job, const RunData& data, const RankRuntime& runtime);
/// One line per step; a warning when the step was skipped, with the new loss scale.
void report_step(const Log& log, const StepMetrics& step, int64_t num_steps, const LossScaler& scaler);
void report_evaluation(const Log& log, const EvalMetrics& result);

/// How a run ended that did not fail.
struct RunEnd {
  int64_t last_step = 0;
  std::string stopped_by;  ///< what asked it to stop before its last step; empty: nothing did
  int64_t saved_step = 0;  ///< of the last checkpoint; 0: there is none
  std::string
      save_error;  ///< why the one after the last step could not be written; empty: it was, or none was asked for
};

/// Of a run whose save_error is not empty: what it was, and where the run can go on.
std::string unsaved_text(const Job& job, const RunEnd& end);

/// How many steps were run, planned and measured memory, and what offload moved, with its rates.
void report_end(const Log& log, const Job& job, const RankRuntime& runtime, const RunEnd& end,
                const MeasuredMemory& measured, const MovedInRun& moved);

}  // namespace tessera::host
