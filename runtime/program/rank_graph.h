// All ranks' actions as one graph: what each waits for, on its rank and through those it meets.
#pragma once

#include <cstdint>
#include <vector>

#include "program/meetings.h"

namespace tessera {

/// The members of a collective are one node. A message blocks neither the other messages of its action nor what its
/// peer does before: so a send, receive or exchange has a node for its start and one for its end.
class RankGraph {
 public:
  RankGraph(const Mesh& mesh, const ProgramOf& program, const Meetings& meetings);

  enum class Order {
    streams,  ///< what really happens: streams, dependencies, and sends that last until they are received
    list,     ///< every list from top to bottom, and sends that never wait
  };

  /// One wait of a cycle: `action` waits for `awaited`.
  struct Wait {
    Place action, awaited;
  };
  /// The waits of some cycle, each for the next; empty when there is none.
  std::vector<Wait> find_cycle(Order order) const;

 private:
  struct Edge {
    uint32_t node, awaited_node;
    Wait wait;
  };

  uint32_t index(Place place) const { return first_[place.rank] + place.action; }
  void wait_for_start(std::vector<Edge>& edges, Place action, Place awaited) const;
  void wait_for_end(std::vector<Edge>& edges, Place action, Place awaited) const;
  std::vector<Edge> edges(Order order) const;

  const Mesh& mesh_;
  const ProgramOf& program_;
  const Meetings& meetings_;
  std::vector<uint32_t> first_;        // of each rank: the index of its first action
  std::vector<uint32_t> start_, end_;  // node of each action, by index
  uint32_t num_nodes_ = 0;
};

}  // namespace tessera
