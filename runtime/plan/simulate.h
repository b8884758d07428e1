// When a step's actions run on every rank, under a model of what they cost: clocks instead of streams.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "verify/collective_matching.h"

namespace tessera::host {

/// Seconds (or another unit) that an action of a rank's program takes by itself. Pure.
using ActionCost = std::function<double(const Program& program, const Action& action)>;

struct Interval {
  double start = 0, end = 0;
};

struct Simulation {
  RankClasses classes;                             ///< ranks of one class do the same at the same time
  std::map<int, std::vector<Interval>> intervals;  ///< by representative: of each action, by its index

  const std::vector<Interval>& of(int rank) const { return intervals.at(classes.representative(rank)); }
  /// When the last action ends.
  double end() const;
};

/// An action starts when what is before it on its stream and its dependencies have finished; a collective when all its
/// members are there, and takes as long as its slowest; a message when both its ends are. The programs have passed
/// verify_rank and verify_ranks: what waits for ever stays at 0. Pure.
Simulation simulate(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program, const ActionCost& cost);

}  // namespace tessera::host
