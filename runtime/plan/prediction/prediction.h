// How long a step takes on a machine whose rates are known.
#pragma once

#include <array>

#include "plan/job_plan.h"
#include "plan/moved.h"
#include "plan/prediction/step_cost.h"

namespace tessera::host {

/// What one phase of a step keeps busy, as if each resource worked alone: no order of the work can be faster than the
/// busiest of them.
struct PhaseTime {
  double compute_seconds = 0, host_seconds = 0;
  double in_seconds = 0, out_seconds = 0;  ///< over the link between device and host
  double file_seconds = 0;                 ///< both directions, through the same disks
  double link_seconds = 0;                 ///< sent to other ranks

  double bound() const;
};

struct Prediction {
  double step_seconds = 0;  ///< simulated, over all ranks; the mean where steps alternate between programs
  /// By MovePhase, of the rank and the program that the report shows.
  std::array<PhaseTime, kMovePhases.size()> phases;

  const PhaseTime& of(MovePhase phase) const { return phases[static_cast<size_t>(phase)]; }
  /// clip waits for all gradients, and all updates for clip, so the phases follow one another.
  double bound() const;
};

/// Simulates the programs of all ranks with these costs, which are by measured rates. Throws INVALID_ARGUMENT where the
/// programs need rates that are not there.
Prediction predict(const JobPlan& planned, int rank, const StepCost& cost);

}  // namespace tessera::host
