// What a group of local-comm shares: its lock, its meetings, its mailbox.
//
// Ranks hold the hub by reference count and not by a shared_ptr, since the only way from one rank to another before
// they have met is a value in the key-value store (rendezvous.cc).
#pragma once

#include "local-comm/mailbox.h"
#include "local-comm/meeting.h"

namespace tessera::local {

/// What the ranks of one group share: one object of the process, made by coordinate 0, freed by the last who leaves.
class Hub {
 public:
  explicit Hub(int num_ranks)
      : meetings_(monitor_, num_ranks),
        mailbox_(monitor_),
        present_(static_cast<size_t>(num_ranks)),
        num_references_(num_ranks) {}

  Monitor& monitor() { return monitor_; }
  Meetings& meetings() { return meetings_; }
  Mailbox& mailbox() { return mailbox_; }

  /// Marks this rank as present and waits until all are; DEADLINE names those who are not, and the hub has then failed.
  /// INVALID_ARGUMENT when the ranks do not agree on the size of the group or two have one coordinate.
  void attach(const Member& member, const Deadline& deadline);

  /// Gives up `num_references` of the references, of which there are as many as ranks; frees the hub with the last.
  void release(int num_references = 1);

 private:
  Monitor monitor_;
  Meetings meetings_;
  Mailbox mailbox_;
  std::vector<bool> present_;  // [rank], guarded by monitor_
  std::atomic<int> num_references_;
};

}  // namespace tessera::local
