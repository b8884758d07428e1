// How long a step takes on a machine whose rates are known.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "plan/job_plan.h"
#include "plan/moved.h"
#include "plan/prediction/step_cost.h"
#include "rates/rates.h"

namespace tessera::host {

/// What one phase of a step keeps busy, each resource by itself.
struct PhaseTime {
  double compute_seconds = 0, host_seconds = 0;
  double in_seconds = 0, out_seconds = 0;  ///< over the link between device and host
  double file_seconds = 0;                 ///< both directions, through the same disks
  double link_seconds = 0;                 ///< sent to other ranks, all streams together
  std::map<uint32_t, double> link_seconds_by_stream;

  /// What compute and copies lose when they run side by side.
  Together beside_copies, beside_files;

  /// No order of the work is faster: with the best overlap of compute and copies, one of the resources takes so long.
  double bound() const;
  double bound_without_link() const;
  double bound_of_link() const;  ///< of the stream with the most
};
/// The time of two phases whose work may overlap.
PhaseTime operator+(const PhaseTime& a, const PhaseTime& b);

struct Prediction {
  double step_seconds = 0;  ///< simulated, over all ranks; the mean where steps alternate between programs
  /// By MovePhase, of the rank and the program that the report shows.
  std::array<PhaseTime, kMovePhases.size()> phases;
  bool micro_batches_overlap = false;  ///< then a forward may hide what a backward copies

  const PhaseTime& of(MovePhase phase) const { return phases[static_cast<size_t>(phase)]; }
  /// Of the phases one after another (MovePhase).
  double bound() const;
};

/// Simulates the programs of all ranks with these costs, which are by measured rates. Throws INVALID_ARGUMENT where the
/// programs need rates that are not there.
Prediction predict(const JobPlan& planned, int rank, const StepCost& cost);

}  // namespace tessera::host
