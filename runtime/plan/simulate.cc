// Runs the wait-for graph with clocks: an action starts at the latest end of the actions that it waits for, the longest
// path in the graph, found in one walk in topological order. The programs are those that run, so the picture of a
// schedule cannot drift from the schedule.
//
// The cost model is the roofline (Williams, Waterman, Patterson 2009): the longer of arithmetic at peak rate and of
// moving all operands once at peak bandwidth; for a collective, its bytes over one link. It has no latency and no
// efficiency factors. It is good enough to draw a step and to see which stream idles, not to predict a step's time.
//
// Where actions share resources their ends are not known when they start, so time goes from event to event
// (prediction/shared_clocks.h).

#include "plan/simulate.h"

#include <algorithm>

#include "plan/prediction/shared_clocks.h"
#include "plan/traffic.h"
#include "program/collective_operands.h"
#include "program/lower_op.h"
#include "verify/wait_graph.h"

namespace tessera::host {
namespace {

/// By node of the graph. The start of a message takes no time, its end as long as the slower of both ranks.
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

/// Each node starts when all that it waits for has ended.
std::vector<Interval> run_alone(std::span<const WaitGraph::Edge> edges, const std::vector<double>& duration) {
  std::vector<double> start(duration.size(), 0);
  walk_edges(edges, static_cast<uint32_t>(duration.size()), [&](const WaitGraph::Edge& edge) {
    start[edge.node] = std::max(start[edge.node], start[edge.awaited_node] + duration[edge.awaited_node]);
  });
  std::vector<Interval> intervals;
  for (size_t node = 0; node < duration.size(); ++node)
    intervals.push_back({start[node], start[node] + duration[node]});
  return intervals;
}

/// By node: the rank, by its position among those matched, and what its action keeps busy there. A collective is one
/// node of all its members, and keeps the first of them busy.
std::vector<Sharer> sharers(const WaitGraph& graph, const MatchedOps& matched_ops, const ProgramOf& program,
                            const Sharing& sharing) {
  std::vector<Sharer> result(graph.num_nodes());
  for (size_t position = 0; position < matched_ops.ranks.size(); ++position) {
    const int rank = matched_ops.ranks[position];
    const Program& own = program(rank);
    for (uint32_t i = 0; i < own.actions.size(); ++i)
      if (Sharer& sharer = result[graph.end_node({rank, i})]; sharer.rank < 0)
        sharer = {static_cast<int>(position), sharing.resource(own, own.actions[i])};
  }
  return result;
}

double memory_bytes(const Program& program, const Action& action) {
  uint64_t num_bytes = 0;
  for (const Binding& binding : action.bindings)
    num_bytes += TSR_NUM_BYTES(program.buffer(binding.buffer).dtype, binding.num_elements);
  return static_cast<double>(num_bytes);
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
  return simulate(mesh, classes, program, cost, Sharing());
}

Simulation simulate(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program, const ActionCost& cost,
                    const Sharing& sharing) {
  DiagnosticList unused;
  Simulation result{matched_ranks(mesh, classes, program), {}};
  const MatchedOps matched_ops = match_ranks(mesh, result.classes, program, unused);
  const WaitGraph graph(program, matched_ops);
  const std::vector<double> duration = durations(graph, matched_ops, program, cost);
  const auto edges = graph.edges(WaitGraph::Order::streams);
  const std::vector<Interval> intervals =
      sharing.resource ? run_shared(edges, sharers(graph, matched_ops, program, sharing), duration, sharing)
                       : run_alone(edges, duration);
  for (const int rank : matched_ops.ranks)
    for (uint32_t i = 0; i < program(rank).actions.size(); ++i)
      result.intervals[rank].push_back(intervals[graph.end_node({rank, i})]);
  return result;
}

double estimated_seconds(const Program& program, const Action& action, const MachineRates& rates) {
  if (is_collective(action.kind)) return static_cast<double>(sent_bytes(program, action)) / rates.link_bytes;
  const double operations = is_compute(action.kind) ? num_operations(op_of(program, action)) : 0;
  return std::max(operations / rates.operations, memory_bytes(program, action) / rates.memory_bytes);
}

}  // namespace tessera::host
