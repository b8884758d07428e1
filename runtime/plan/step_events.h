// The actions of a step program with times, as a trace has them.
#pragma once

#include <functional>

#include "exec/record/step_times.h"
#include "plan/simulate.h"
#include "trace/trace.h"

namespace tessera::host {

/// The actions of one rank's program, for traces of its steps. Everything but the times is computed once.
class StepEvents {
 public:
  /// `program` is that of this rank.
  StepEvents(const Program& program, int rank);

  /// Adds a step to the trace; `times` by index of the action.
  void add_to(Trace& trace, int64_t step, const std::function<ActionTime(size_t action)>& times) const;

 private:
  std::vector<std::string> streams_;
  std::vector<TracedAction> actions_;  // `stream` is the program's index
};

/// The simulated actions of all ranks, as step 1 of a trace.
Trace simulated_trace(const Mesh& mesh, const ProgramOf& program, const Simulation& simulation);

}  // namespace tessera::host
