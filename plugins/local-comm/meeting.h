// The collectives of local-comm in which all ranks take part: how they meet.
#pragma once

#include <span>
#include <vector>

#include "local-comm/monitor.h"

namespace tessera::local {

/// One collective in which all ranks take part: where they see one another's arguments, and so one another's memory.
struct Meeting {
  bool in_use = false;
  uint64_t ticket = 0;
  std::vector<const Collective*> posts;  // [rank]; NULL until that rank has come
  std::vector<const void*> operands;     // [num_ranks * num_ranks], scratch: row r is rank r's
  int num_arrivals = 0;                  // at any of the meeting's barriers, over all ranks
  int num_left = 0;
  std::shared_ptr<const Failure> mismatch;

  const Collective& post(int rank) const { return *posts[static_cast<size_t>(rank)]; }
  std::span<const void*> operands_of(int rank) {
    return std::span(operands).subspan(static_cast<size_t>(rank) * posts.size(), posts.size());
  }
};

/// The meetings of a group. Its functions are called by the thread of each rank's stream.
class Meetings {
 public:
  Meetings(Monitor& monitor, int num_ranks) : monitor_(monitor), num_ranks_(num_ranks) {}

  /// Waits until every rank has come to this collective and all have brought the same. From then on each may read the
  /// others' send (and write where they agreed to) until it has left. Throws DEADLINE with the ranks that are missing,
  /// the group's failure, or INVALID_ARGUMENT with the two that differ; then nobody touches any memory.
  Meeting& enter(const Member& member, const Collective& collective);

  /// A barrier of those who entered. No failure interrupts it: nobody may go while another rank reads its memory, and
  /// all who entered come here without waiting for anything else.
  void pass(Meeting& meeting);

  /// pass(), and the end of the meeting for this rank. Throws the group's failure, if there is one by now.
  void leave(Meeting& meeting, const Member& member, const Collective& collective);

 private:
  Meeting& find(uint64_t ticket);
  bool is_complete(const Meeting& meeting) const { return meeting.num_arrivals >= num_ranks_; }
  void finish(Meeting& meeting);
  [[noreturn]] void give_up(const Monitor::Lock& lock, const Meeting& meeting, const Member& member,
                            const Collective& collective);

  Monitor& monitor_;
  const int num_ranks_;
  std::vector<std::unique_ptr<Meeting>> meetings_;  // guarded by monitor_; reused
};

/// In what two ranks' arguments to one collective differ ("dtype", "root", ...), or NULL. `a_rank`, `b_rank`:
/// coordinates.
const char* difference(const Collective& a, int a_rank, const Collective& b, int b_rank);

}  // namespace tessera::local
