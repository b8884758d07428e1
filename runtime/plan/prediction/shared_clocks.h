// Clocks of actions that slow one another down.
#pragma once

#include <span>
#include <vector>

#include "plan/prediction/sharing.h"
#include "verify/wait_graph.h"

namespace tessera::host {

/// Where a node of the graph works; rank -1: it shares nothing.
struct Sharer {
  int rank = -1;
  Resource resource = Resource::none;
};

/// When each node starts and ends, if it takes its `duration` alone and longer while others of its rank run. Nodes on a
/// cycle stay at 0. Pure.
std::vector<Interval> run_shared(std::span<const WaitGraph::Edge> edges, const std::vector<Sharer>& sharers,
                                 const std::vector<double>& durations, const Sharing& sharing);

}  // namespace tessera::host
