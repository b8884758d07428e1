// What rank 0 logs about a run before its first step and after its last one; step_report.h logs the steps. Implemented
// in run_start.cc and run_end.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "trace/summary.h"
#include "train/meters/memory_meter.h"
#include "train/meters/move_meter.h"
#include "train/meters/time_meter.h"
#include "train/report/table.h"

namespace tessera::host {

/// What each rank computes with on the CPU.
struct RankThreads {
  int count = 1;
  bool have_own_cores = false;
};

/// "dp=2 ddp, tp=2 tensor"
std::string mesh_text(const Job& job);

/// Describes the run: model, data, steps, mesh, plugins with their versions, memory. Rows without a value do not apply.
std::vector<Row> start_rows(const Job& job, const RunData& data, const RankRuntime& runtime, RankThreads threads);
/// These as one table, before the first step; warnings about rates that cannot work.
void report_start(const Log& log, const Job& job, const RunData& data, const RankRuntime& runtime, RankThreads threads);
void report_evaluation(const Log& log, const EvalMetrics& result);

/// The end of a run that did not fail.
struct RunEnd {
  int64_t steps_before = 0;  ///< done before it, of a run that is resumed
  int64_t last_step = 0;
  std::string why_stopped;  ///< before its last step: "as SIGTERM asked"; empty: it was not
  int64_t saved_step = 0;   ///< of the last checkpoint; 0: none
  /// Why the one after the last step could not be written; empty: it was, or none was asked for.
  std::string save_error;
  std::optional<double> loss, smoothed_loss;  ///< of the last step, and with those before it
  std::optional<EvalMetrics> best_evaluation;
};

/// For a run whose save_error is not empty: the error, and where the run can be resumed.
std::string unsaved_text(const Job& job, const RunEnd& end);

/// How the steps of a run spend their time, from the few that were recorded on rank 0.
struct TimeUse {
  int64_t num_steps = 0;  ///< recorded
  TraceSummary summary;   ///< of rank 0 alone
};

/// What was measured over the run.
struct RunMeasured {
  MeasuredMemory memory;
  MovedInRun moved;
  const TimeMeter& times;
  std::optional<TimeUse> time_use;  ///< empty: no step was recorded
};
/// The results of the run: loss, time, rates, where the time went, planned and measured memory, and what offload moved.
std::vector<Row> end_rows(const Job& job, const RankRuntime& runtime, const RunEnd& end, const RunMeasured& measured);
/// These as one table.
void report_end(const Log& log, const Job& job, const RankRuntime& runtime, const RunEnd& end,
                const RunMeasured& measured);

}  // namespace tessera::host
