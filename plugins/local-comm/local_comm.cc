// The collectives. Each one enters (all ranks are there and their arguments match), works on the ranks' memory, and
// leaves (all have finished, so operands may be changed again).
//
//     ALL_REDUCE, 3 ranks          slice 0     slice 1     slice 2
//     rank r reduces slice r       0 reads 012 1 reads 012 2 reads 012      from all ranks' send
//     and writes all its results   0 writes 012 ...                         into all ranks' recv
//
// Cost for n ranks and b bytes: each rank reads b and writes b, which in place is what it has just read. All cores work
// at once, and no element is reduced twice. Copies start with the next rank, so that not all ranks read the same memory
// first.
#include "local-comm/local_comm.h"

#include <array>

#include "local-comm/memory.h"

namespace tessera::local {
namespace {

/// Where slice `rank` of `collective` starts in a buffer that holds all slices.
template <class Byte>
Byte* slice(Byte* buffer, const Collective& collective, int rank) {
  return buffer + collective.slice_begin(rank) * collective.element_bytes();
}

}  // namespace

LocalCommunicator::LocalCommunicator(const tsr_comm_create_args& args)
    : QueuedCommunicator("local-comm", args),
      abort_(std::make_shared<Failure>(Failure{TSR_E_ABORTED, member().world_rank(),
                                               "was aborted by rank " + std::to_string(member().world_rank())})),
      shared_(join_shared_state(KeyValue(args.host), rendezvous(), member(), CancelFlag(args.cancel))) {
  outs_.reserve(static_cast<size_t>(member().num_ranks));  // between enter and leave nothing may throw
}

void LocalCommunicator::interrupt() noexcept {
  const auto lock = shared_->monitor().lock();
  shared_->monitor().fail(lock, abort_);
}

void LocalCommunicator::run(const Collective& collective) {
  if (collective.is_messages()) return shared_->messages().exchange(member(), collective);
  PendingCollective& pending = shared_->collectives().enter(member(), collective);
  work(pending, collective);
  shared_->collectives().leave(pending, member(), collective);
}

// Between enter and leave nothing throws: the other ranks wait for this one at the collective's barriers. submit has
// checked all that reduce() could refuse.
void LocalCommunicator::work(PendingCollective& pending, const Collective& collective) {
  switch (collective.kind) {
    case TSR_COLL_ALL_REDUCE:
      return all_reduce(pending, collective);
    case TSR_COLL_REDUCE_SCATTER:
      return reduce_own_slice(pending, collective, std::array{collective.recv});
    case TSR_COLL_REDUCE:
      return reduce_own_slice(pending, collective,
                              std::array{slice(pending.post(collective.peer).recv, collective, member().rank)});
    case TSR_COLL_BROADCAST:
      return copy(shared_->monitor(), collective.recv, pending.post(collective.peer).send,
                  collective.num_elements * collective.element_bytes());
    case TSR_COLL_ALL_GATHER:
    case TSR_COLL_ALL_TO_ALL:
      return copy_slices(pending, collective);
    default:  // BARRIER: all ranks have entered
      return;
  }
}

void LocalCommunicator::reduce_own_slice(PendingCollective& pending, const Collective& collective,
                                         std::span<std::byte* const> outs) {
  const int rank = member().rank;
  reduce(shared_->monitor(), pending, rank, collective.slice_begin(rank), collective.slice_elements(rank), outs);
}

// In place (send == recv) is safe: slice i of every rank is read and written by the owner of slice i alone.
void LocalCommunicator::all_reduce(PendingCollective& pending, const Collective& collective) {
  outs_.clear();
  for (int step = 0; step < member().num_ranks; ++step)
    outs_.push_back(slice(pending.post((member().rank + step) % member().num_ranks).recv, collective, member().rank));
  reduce_own_slice(pending, collective, outs_);
}

// ALL_GATHER copies the whole send of each rank, ALL_TO_ALL its slice for this rank. In place, a gather's own slice is
// its own source, and copy() does nothing.
void LocalCommunicator::copy_slices(const PendingCollective& pending, const Collective& collective) {
  const bool is_gather = collective.kind == TSR_COLL_ALL_GATHER;
  const std::vector<uint64_t>& offsets = is_gather ? collective.offsets : collective.recv_offsets;
  const uint64_t element_bytes = collective.element_bytes();
  for (int step = 0; step < member().num_ranks; ++step) {
    const int from = (member().rank + step) % member().num_ranks;
    const Collective& post = pending.post(from);
    const std::byte* source = is_gather ? post.send : slice(post.send, post, member().rank);
    const uint64_t begin = offsets[static_cast<size_t>(from)];
    copy(shared_->monitor(), collective.recv + begin * element_bytes, source,
         (offsets[static_cast<size_t>(from) + 1] - begin) * element_bytes);
  }
}

}  // namespace tessera::local
