// The wait-for graph of all ranks: a node is an action, or a collective on all its members; a message has a node for
// its start and one for its end. An edge goes from an action to what it waits for:
//
//     rank 0    #10 forward  <-  #11 send: start  <-  end                  the end also waits for the start of the recv
//     rank 1                     #1 recv:  start  <-  end  <-  #2 forward  the end also waits for the start of the send
//
// A cycle is a deadlock (Order::streams), or lists that disagree about an order (Order::list, see verify_ranks.cc). The
// graph is walked in topological order by counting open waits (Kahn 1962) in O(nodes + edges); nodes that are never
// reached are on a cycle or downstream of one.

#include "verify/wait_graph.h"

#include <algorithm>

#include "program/collective_operands.h"

namespace tessera::host {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

std::vector<bool> walk_edges(std::span<const WaitGraph::Edge> edges, uint32_t num_nodes,
                             const std::function<void(const WaitGraph::Edge&)>& visit) {
  std::vector<uint32_t> num_waits(num_nodes), first(num_nodes + 1), waiting(edges.size()), ready;
  for (const auto& edge : edges) {
    ++num_waits[edge.node];
    ++first[edge.awaited_node + 1];
  }
  for (uint32_t n = 0; n < num_nodes; ++n)
    first[n + 1] += first[n];
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for (const auto& edge : edges)
    waiting[next[edge.awaited_node]++] = static_cast<uint32_t>(&edge - edges.data());
  for (uint32_t n = 0; n < num_nodes; ++n)
    if (num_waits[n] == 0) ready.push_back(n);
  for (size_t done = 0; done < ready.size(); ++done)
    for (uint32_t i = first[ready[done]]; i < first[ready[done] + 1]; ++i) {
      const WaitGraph::Edge& edge = edges[waiting[i]];
      if (visit) visit(edge);
      if (--num_waits[edge.node] == 0) ready.push_back(edge.node);
    }
  std::vector<bool> stuck(num_nodes, true);
  for (const uint32_t n : ready)
    stuck[n] = false;
  return stuck;
}

WaitGraph::WaitGraph(const ProgramOf& program, const MatchedOps& matched_ops)
    : program_(program), matched_ops_(matched_ops) {
  for (const int rank : matched_ops.ranks) {
    first_[rank] = static_cast<uint32_t>(start_.size());
    for (const Action& action : program(rank).actions) {
      start_.push_back(num_nodes_++);
      end_.push_back(is_message(action.kind) ? num_nodes_++ : start_.back());
    }
  }
  for (const auto& members : matched_ops.collectives)
    for (const ActionRef& member : members)
      start_[index(member)] = end_[index(member)] = start_[index(members[0])];
}

void WaitGraph::wait_for_end(std::vector<Edge>& edges, ActionRef action, ActionRef awaited) const {
  edges.push_back({start_[index(action)], end_[index(awaited)], {action, awaited}});
}

void WaitGraph::wait_for_start(std::vector<Edge>& edges, ActionRef action, ActionRef awaited) const {
  edges.push_back({end_[index(action)], start_[index(awaited)], {action, awaited}});
}

std::vector<WaitGraph::Edge> WaitGraph::edges(Order order) const {
  std::vector<Edge> result;
  for (const int rank : matched_ops_.ranks) {
    const Program& program = program_(rank);
    std::vector<uint32_t> last(program.streams.size(), kNone);
    for (uint32_t i = 0; i < program.actions.size(); ++i) {
      const Action& action = program.actions[i];
      const ActionRef self{rank, i};
      if (is_message(action.kind)) wait_for_start(result, self, self);
      if (order == Order::list) {
        if (i > 0) wait_for_end(result, self, {rank, i - 1});
        continue;
      }
      if (last[action.stream] != kNone) wait_for_end(result, self, {rank, last[action.stream]});
      for (const uint32_t earlier : action.dependencies)
        wait_for_end(result, self, {rank, earlier});
      last[action.stream] = i;
    }
  }
  for (const MatchedOps::Transfer& transfer : matched_ops_.transfers) {
    wait_for_start(result, transfer.receiver, transfer.sender);
    if (order == Order::streams) wait_for_start(result, transfer.sender, transfer.receiver);
  }
  return result;
}

std::vector<WaitGraph::Wait> WaitGraph::find_cycle(Order order) const {
  const std::vector<Edge> all = edges(order);
  const std::vector<bool> stuck = walk_edges(all, num_nodes_, {});
  const auto first = std::ranges::find(stuck, true);
  if (first == stuck.end()) return {};
  // Every stuck node waits for a stuck node, so following the waits must close a cycle.
  std::vector<uint32_t> wait_of(num_nodes_, kNone);
  for (uint32_t e = 0; e < all.size(); ++e)
    if (stuck[all[e].node] && stuck[all[e].awaited_node]) wait_of[all[e].node] = e;
  std::vector<uint32_t> step_at(num_nodes_, kNone);
  std::vector<Wait> walk;
  auto node = static_cast<uint32_t>(first - stuck.begin());
  while (step_at[node] == kNone) {
    step_at[node] = static_cast<uint32_t>(walk.size());
    walk.push_back(all[wait_of[node]].wait);
    node = all[wait_of[node]].awaited_node;
  }
  walk.erase(walk.begin(), walk.begin() + step_at[node]);
  return walk;
}

}  // namespace tessera::host
