// Records steps: those of --profile on all ranks, for a trace; and a few others on rank 0, for a summary of where the
// time went.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "plan/step_events.h"
#include "trace/trace.h"
#include "train/rank_info.h"
#include "train/rank_observer.h"
#include "train/report/report.h"

namespace tessera::host {

/// Of one rank. Borrows all but the log. [control-thread]
class Profiler {
 public:
  /// `steps_done` before this run. Warns where --profile names only these.
  Profiler(const Job& job, const RankInfo& info, const RankObserver& observer, const RankRuntime& runtime,
           int64_t steps_done, const Log& first_log);

  /// Where to record the times of the step (from 1 on); null: it is not recorded.
  StepTimes* before_step(int64_t step);
  /// After the last step of --profile, collective: rank 0 gives the trace of all ranks to the observer.
  void after_step(int64_t step);
  /// The run has ended, perhaps early. Collective, as after_step().
  void end();

  /// Nothing where no step was recorded: on ranks other than 0, on a GPU (where recording costs more) without
  /// --profile, and in runs of one step.
  std::optional<TimeUse> time_use() const;

 private:
  struct Recorded {
    int64_t step = 0;
    StepTimes times;
  };
  bool is_profiled(int64_t step) const;
  void keep_sample();
  Trace trace_of(const std::vector<Recorded>& steps) const;
  const StepEvents& events_of(int64_t step) const;
  void write();
  int64_t agree_on_origin(int64_t begin_ns) const;
  void gather(const Trace& header, const std::string& own_events);

  const Job& job_;
  const RankInfo& info_;
  const RankObserver& observer_;
  const RankRuntime& runtime_;
  const Log first_log_;
  const bool samples_;
  int64_t next_sample_;
  int64_t interval_;
  const bool is_done_before_;    // all that --profile names
  std::optional<Recorded> now_;  // the step that runs
  std::vector<Recorded> profiled_, sampled_;
  bool is_written_ = false;
  mutable std::map<size_t, StepEvents> events_;  // by variant of the step; made on first use
};

}  // namespace tessera::host
