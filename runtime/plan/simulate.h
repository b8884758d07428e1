// Simulates a step on all ranks: when each action runs, under a model of how long it takes.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "plan/prediction/sharing.h"
#include "verify/collective_matching.h"

namespace tessera::host {

/// Seconds (or another unit) that an action takes by itself. Pure.
using ActionCost = std::function<double(const Program& program, const Action& action)>;

struct Simulation {
  RankClasses classes;                             ///< ranks of one class run in lockstep
  std::map<int, std::vector<Interval>> intervals;  ///< by representative, then by index of the action

  const std::vector<Interval>& of(int rank) const { return intervals.at(classes.representative(rank)); }
  /// When the last action ends.
  double end() const;
};

/// An action starts when its predecessor on its stream and its dependencies have finished; a collective when all
/// members have reached it, and takes as long as the slowest; a message when both ends have. The programs must have
/// passed verify_rank and verify_ranks: actions on a cycle stay at 0. Pure.
Simulation simulate(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program, const ActionCost& cost);
/// The same with actions that take longer while others run. Work between ranks (collectives, messages) shares nothing.
Simulation simulate(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program, const ActionCost& cost,
                    const Sharing& sharing);

/// Rates of a machine, per second.
struct MachineRates {
  double operations = 100e12;  ///< of matrix products
  double memory_bytes = 1e12;
  double link_bytes = 100e9;  ///< sent by one rank
};

/// A rough estimate, for `plan --svg`. A collective: the bytes that this rank sends, over the link. Other actions: the
/// longer of their operations and of one pass over all operands.
double estimated_seconds(const Program& program, const Action& action, const MachineRates& rates);

}  // namespace tessera::host
