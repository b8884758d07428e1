// One PendingCollective per collective in progress, found by its ticket: the n-th collectives of all ranks belong
// together, on whatever streams they were submitted. A rank's post is a pointer to its Collective, on the stack of its
// stream's worker; so no rank may leave before all have finished with it.
//
// It counts arrivals at barriers: n arrivals complete enter, 2n the next barrier, and so on. The
// last rank to enter compares all posts, once, while the others wait: O(n) comparisons, O(n^2) for ALL_TO_ALL, where
// each pair has its own counts. PendingCollectives are reused, so a step allocates none.
//
// After a complete enter nothing may throw and no failure interrupts a barrier: a rank that left would free memory that
// others still read. Before it, a rank that times out does so under the lock, so a collective either completes or fails
// on all ranks.
#include "local-comm/collective_rendezvous.h"

namespace tessera::local {
namespace {

uint64_t slice(const std::vector<uint64_t>& offsets, int rank) {
  return offsets[static_cast<size_t>(rank) + 1] - offsets[static_cast<size_t>(rank)];
}

/// All ranks have entered: finds the first rank that differs from rank 0; of an ALL_TO_ALL also pairs with different
/// counts.
std::shared_ptr<const Failure> find_mismatch(const PendingCollective& pending, const Member& member) {
  const int num_ranks = member.num_ranks;
  for (int a = 0; a < num_ranks; ++a) {
    const Collective& mine = pending.post(a);
    const int end = a == 0 || mine.kind == TSR_COLL_ALL_TO_ALL ? num_ranks : 0;
    for (int b = a + 1; b < end; ++b) {
      const Collective& other = pending.post(b);
      const char* what = difference(mine, a, other, b);
      if (!what) continue;
      const std::string text = std::string("does not match between ranks in ") + what + ": rank " +
                               std::to_string(member.world_rank(a)) + " has " + mine.text() + ", rank " +
                               std::to_string(member.world_rank(b)) + " has " + other.text();
      return std::make_shared<Failure>(Failure{TSR_E_INVALID_ARGUMENT, member.world_rank(b), text});
    }
  }
  return nullptr;
}

}  // namespace

const char* difference(const Collective& a, int a_rank, const Collective& b, int b_rank) {
  if (a.kind != b.kind) return "kind";
  if (a.kind == TSR_COLL_BARRIER) return nullptr;
  if (a.dtype != b.dtype) return "dtype";
  if (is_reduction(a.kind) && a.reduce != b.reduce) return "reduction";
  if ((a.kind == TSR_COLL_BROADCAST || a.kind == TSR_COLL_REDUCE) && a.peer != b.peer) return "root";
  if (a.kind == TSR_COLL_ALL_TO_ALL) {
    const bool matches = slice(a.offsets, b_rank) == slice(b.recv_offsets, a_rank) &&
                         slice(b.offsets, a_rank) == slice(a.recv_offsets, b_rank);
    return matches ? nullptr : "the elements that one sends and the other receives";
  }
  if (a.total_elements() != b.total_elements()) return "number of elements";
  return a.offsets == b.offsets ? nullptr : "counts";
}

PendingCollective& CollectiveRendezvous::find(uint64_t ticket) {
  PendingCollective* unused = nullptr;
  for (const auto& pending : pending_) {
    if (pending->in_use && pending->ticket == ticket) return *pending;
    if (!pending->in_use) unused = pending.get();
  }
  if (!unused) unused = pending_.emplace_back(std::make_unique<PendingCollective>()).get();
  unused->in_use = true;
  unused->ticket = ticket;
  unused->posts.assign(static_cast<size_t>(num_ranks_), nullptr);
  unused->operands.resize(unused->posts.size() * unused->posts.size());
  unused->num_arrivals = unused->num_left = 0;
  unused->mismatch.reset();
  return *unused;
}

void CollectiveRendezvous::finish(PendingCollective& pending) {
  if (++pending.num_left == num_ranks_) pending.in_use = false;
}

PendingCollective& CollectiveRendezvous::enter(const Member& member, const Collective& collective) {
  const Deadline deadline(collective.timeout_ms);
  auto lock = monitor_.lock();
  monitor_.throw_failure(member, collective);
  PendingCollective& pending = find(collective.ticket);
  pending.posts[static_cast<size_t>(member.rank)] = &collective;
  if (++pending.num_arrivals == num_ranks_) {
    pending.mismatch = find_mismatch(pending, member);
    monitor_.notify();
  } else if (!monitor_.wait(lock, deadline, [&] { return is_complete(pending); })) {
    give_up(lock, pending, member, collective);
  }
  if (!pending.mismatch) return pending;
  const std::shared_ptr<const Failure> mismatch = pending.mismatch;
  finish(pending);
  monitor_.fail(lock, mismatch);
  throw monitor_.failure_error(member, collective);
}

void CollectiveRendezvous::give_up(const Monitor::Lock& lock, const PendingCollective& pending, const Member& member,
                                   const Collective& collective) {
  monitor_.throw_failure(member, collective);
  std::vector<int> missing;
  for (int rank = 0; rank < num_ranks_; ++rank)
    if (!pending.posts[static_cast<size_t>(rank)]) missing.push_back(rank);
  // Under the same lock as the search for missing ranks: from here on this collective cannot become complete.
  monitor_.fail(lock, timeout_failure(member, collective, missing));
  throw monitor_.failure_error(member, collective);
}

void CollectiveRendezvous::barrier(PendingCollective& pending) {
  auto lock = monitor_.lock();
  const int barrier_end = (pending.num_arrivals / num_ranks_ + 1) * num_ranks_;
  if (++pending.num_arrivals == barrier_end) return monitor_.notify();
  monitor_.wait_for_busy(lock, [&] { return pending.num_arrivals >= barrier_end; });
}

void CollectiveRendezvous::leave(PendingCollective& pending, const Member& member, const Collective& collective) {
  barrier(pending);
  const auto lock = monitor_.lock();
  finish(pending);
  monitor_.throw_failure(member, collective);
}

}  // namespace tessera::local
