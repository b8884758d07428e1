// The wait-for graph of all ranks' actions: waits on a rank, and between ranks through collectives and messages.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "verify/collective_matching.h"

namespace tessera::host {

/// The members of a collective are one node. A message blocks neither the other messages of its action nor earlier
/// actions of its peer, so a send, receive or exchange has one node for its start and one for its end.
class WaitGraph {
 public:
  /// The graph of the ranks in `matched_ops`.
  WaitGraph(const ProgramOf& program, const MatchedOps& matched_ops);

  enum class Order {
    streams,  ///< as executed: streams, dependencies, and sends that last until they are received
    list,     ///< every list from top to bottom, and sends that never wait
  };

  /// One wait of a cycle: `action` waits for `awaited`.
  struct Wait {
    ActionRef action, awaited;
  };
  /// The waits of some cycle, each for the next; empty when there is none.
  std::vector<Wait> find_cycle(Order order) const;

  struct Edge {
    uint32_t node, awaited_node;
    Wait wait;
  };
  std::vector<Edge> edges(Order order) const;
  uint32_t num_nodes() const { return num_nodes_; }
  /// For a message, a different node than that of its start.
  uint32_t end_node(ActionRef place) const { return end_[index(place)]; }

 private:
  uint32_t index(ActionRef place) const { return first_.at(place.rank) + place.action; }
  void wait_for_start(std::vector<Edge>& edges, ActionRef action, ActionRef awaited) const;
  void wait_for_end(std::vector<Edge>& edges, ActionRef action, ActionRef awaited) const;

  const ProgramOf& program_;
  const MatchedOps& matched_ops_;
  std::unordered_map<int, uint32_t> first_;  // of each rank: the index of its first action
  std::vector<uint32_t> start_, end_;        // node of each action, by index
  uint32_t num_nodes_ = 0;
};

/// Visits the edges in topological order (if there is a `visit`). Returns which nodes never become ready: those on a
/// cycle and everything downstream of one.
std::vector<bool> walk_edges(std::span<const WaitGraph::Edge> edges, uint32_t num_nodes,
                             const std::function<void(const WaitGraph::Edge&)>& visit);

}  // namespace tessera::host
