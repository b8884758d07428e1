// The state that the ranks of a group share: lock, collectives in progress, messages.
//
// Ranks hold it by a reference count of its own, not by a shared_ptr, since at first the only way from one rank to
// another is a value in the key-value store: the state's address.
#pragma once

#include <memory>

#include "local-comm/collective_rendezvous.h"
#include "local-comm/point_to_point.h"
#include "tessera/rendezvous.hpp"

namespace tessera::local {

/// One object per group in the process, made by coordinate 0 and freed by the last rank that releases it.
class SharedState {
 public:
  explicit SharedState(int num_ranks)
      : monitor_(num_ranks),
        collectives_(monitor_, num_ranks),
        messages_(monitor_),
        present_(static_cast<size_t>(num_ranks)),
        num_references_(num_ranks) {}

  Monitor& monitor() { return monitor_; }
  CollectiveRendezvous& collectives() { return collectives_; }
  PointToPoint& messages() { return messages_; }

  /// Marks this rank as present and waits until all are; DEADLINE names the missing ranks, ABORTED one that was
  /// cancelled, and the state has then failed for all. INVALID_ARGUMENT when the ranks disagree on the size of the
  /// group or two have the same coordinate.
  void attach(const Member& member, const Deadline& deadline, const CancelFlag& cancel);

  /// Drops `num_references` references, of which there is one per rank; frees the state with the last.
  void release(int num_references = 1);

 private:
  Monitor monitor_;
  CollectiveRendezvous collectives_;
  PointToPoint messages_;
  std::vector<bool> present_;  // [rank], guarded by monitor_
  std::atomic<int> num_references_;
};

struct ReleaseSharedState {
  void operator()(SharedState* state) const { state->release(); }
};
using SharedStateRef = std::unique_ptr<SharedState, ReleaseSharedState>;

/// Returns the state of the group with that `prefix` in the key-value service, once all ranks have joined. Coordinate 0
/// makes it and publishes its process and address. FAILED_PRECONDITION in another process than coordinate 0's; DEADLINE
/// names the missing ranks; ABORTED soon after `cancel` is set here or for another rank. [control-thread]
SharedStateRef join_shared_state(const KeyValue& store, const std::string& prefix, const Member& member,
                                 const CancelFlag& cancel = CancelFlag());

}  // namespace tessera::local
