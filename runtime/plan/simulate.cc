// Runs the wait-for graph with clocks: an action starts at the latest end of what it waits for, which is the longest
// path in the graph, found in one walk in topological order. The programs are those that run, so the picture of a
// schedule cannot drift from the schedule.

#include "plan/simulate.h"

#include <algorithm>

#include "program/collective_operands.h"
#include "verify/wait_graph.h"

namespace tessera::host {
namespace {

/// Of each node of the graph. The start of a message takes no time, its end takes as long as the slower of its ends.
std::vector<double> durations(const WaitGraph& graph, const MatchedOps& matched_ops, const ProgramOf& program,
                              const ActionCost& cost) {
  std::vector<double> result(graph.num_nodes(), 0);
  const auto cost_at = [&](ActionRef place) {
    const Program& own = program(place.rank);
    return cost(own, own.actions[place.action]);
  };
  const auto at_least = [&](ActionRef place, double seconds) {
    double& duration = result[graph.end_node(place)];
    duration = std::max(duration, seconds);
  };
  for (const int rank : matched_ops.ranks)
    for (uint32_t i = 0; i < program(rank).actions.size(); ++i)
      at_least({rank, i}, cost_at({rank, i}));
  for (const MatchedOps::Transfer& transfer : matched_ops.transfers) {
    at_least(transfer.receiver, cost_at(transfer.sender));
    at_least(transfer.sender, cost_at(transfer.receiver));
  }
  return result;
}

}  // namespace

double Simulation::end() const {
  double last = 0;
  for (const auto& [rank, actions] : intervals)
    for (const Interval& interval : actions)
      last = std::max(last, interval.end);
  return last;
}

Simulation simulate(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program, const ActionCost& cost) {
  DiagnosticList unused;
  Simulation result{matched_ranks(mesh, classes, program), {}};
  const MatchedOps matched_ops = match_ranks(mesh, result.classes, program, unused);
  const WaitGraph graph(program, matched_ops);
  const std::vector<double> duration = durations(graph, matched_ops, program, cost);
  std::vector<double> start(graph.num_nodes(), 0);
  const auto edges = graph.edges(WaitGraph::Order::streams);
  walk_edges(edges, graph.num_nodes(), [&](const WaitGraph::Edge& edge) {
    start[edge.node] = std::max(start[edge.node], start[edge.awaited_node] + duration[edge.awaited_node]);
  });
  for (const int rank : matched_ops.ranks)
    for (uint32_t i = 0; i < program(rank).actions.size(); ++i) {
      const uint32_t node = graph.end_node({rank, i});
      result.intervals[rank].push_back({start[node], start[node] + duration[node]});
    }
  return result;
}

}  // namespace tessera::host
