// What the caller of a run is told, and asked.
#pragma once

#include <functional>
#include <string>

#include "base/metrics.h"
#include "compile/compile.h"
#include "exec/rank_runtime.h"
#include "launch/run_signals.h"

namespace tessera::host {

/// Callbacks of a run, on the rank's own thread.
struct RankObserver {
  /// On rank 0, once the programs of all ranks have passed their checks.
  std::function<void(const JobPrograms&)> on_planned = [](const JobPrograms&) {};
  /// Before the first step, when the run can no longer be refused. `version` is empty.
  std::function<void(const RunMetrics&)> on_start = [](const RunMetrics&) {};
  std::function<void(const StepMetrics&)> on_step = [](const StepMetrics&) {};
  /// After each checkpoint, or the attempt.
  std::function<void(const SaveMetrics&)> on_save = [](const SaveMetrics&) {};
  std::function<void(const EvalMetrics&)> on_eval = [](const EvalMetrics&) {};
  /// On rank 0, after the last step of --profile: the trace of all ranks, as the text of a file.
  std::function<void(const std::string& trace)> on_trace = [](const std::string&) {};
  /// Why an output cannot be written, a sentence; empty: it can. The run then stops after its step, saves, and ends
  /// with it.
  std::function<std::string()> output_error = [] { return std::string(); };
  /// Before and after each step: what signals have asked of this process so far.
  std::function<SignalRequests()> requests = [] { return SignalRequests{}; };
  /// After the last step, while everything is still open.
  std::function<void(RankRuntime&)> on_end = [](RankRuntime&) {};
};

}  // namespace tessera::host
