// The rendezvous of collectives in which all ranks of a group take part.
#pragma once

#include <span>
#include <vector>

#include "local-comm/monitor.h"

namespace tessera::local {

/// One collective in progress: through it the ranks see one another's arguments, and so one another's memory.
struct PendingCollective {
  bool in_use = false;
  uint64_t ticket = 0;
  std::vector<const Collective*> posts;  // [rank]; NULL until that rank has entered
  std::vector<const void*> operands;     // [num_ranks * num_ranks], scratch: row r is rank r's
  int num_arrivals = 0;                  // at any of its barriers, over all ranks
  int num_left = 0;
  std::shared_ptr<const Failure> mismatch;

  const Collective& post(int rank) const { return *posts[static_cast<size_t>(rank)]; }
  std::span<const void*> operands_of(int rank) {
    return std::span(operands).subspan(static_cast<size_t>(rank) * posts.size(), posts.size());
  }
};

/// Brings the ranks of a group together for each collective. Called on the threads of the ranks' streams.
class CollectiveRendezvous {
 public:
  CollectiveRendezvous(Monitor& monitor, int num_ranks) : monitor_(monitor), num_ranks_(num_ranks) {}

  /// Waits until every rank has entered this collective and all arguments match. From then on each rank may read the
  /// others' send buffers until it has left. Throws DEADLINE with the missing ranks, the group's failure, or
  /// INVALID_ARGUMENT with the two ranks that differ; then no rank touches any memory.
  PendingCollective& enter(const Member& member, const Collective& collective);

  /// A barrier of all ranks that entered. No failure interrupts it: a rank must not leave while another reads its
  /// memory, and all ranks that entered arrive here without waiting for anything else.
  void barrier(PendingCollective& pending);

  /// barrier(), and the end of the collective for this rank. Throws the group's failure, if any.
  void leave(PendingCollective& pending, const Member& member, const Collective& collective);

 private:
  PendingCollective& find(uint64_t ticket);
  bool is_complete(const PendingCollective& pending) const { return pending.num_arrivals >= num_ranks_; }
  void finish(PendingCollective& pending);
  [[noreturn]] void give_up(const Monitor::Lock& lock, const PendingCollective& pending, const Member& member,
                            const Collective& collective);

  Monitor& monitor_;
  const int num_ranks_;
  std::vector<std::unique_ptr<PendingCollective>> pending_;  // guarded by monitor_; reused
};

/// The property in which two ranks' arguments of one collective differ ("dtype", "root", ...), or NULL. `a_rank`,
/// `b_rank`: coordinates.
const char* difference(const Collective& a, int a_rank, const Collective& b, int b_rank);

}  // namespace tessera::local
