// The collectives. Each is: enter (all ranks have come and brought the same), work on one another's memory, leave (all
// have finished, so operands may be changed again).
//
//     ALL_REDUCE, 3 ranks          slice 0     slice 1     slice 2
//     1. rank r reduces slice r    0 reads 012 1 reads 012 2 reads 012      from all ranks' send, into its own recv
//     2. pass                      a barrier: all slices are reduced
//     3. rank r copies the others  1, 2 read 0 0, 2 read 1 0, 1 read 2      from the owners' recv
//
// Cost for n ranks and b bytes: each rank reads b and writes b / n in step 1, reads and writes b (n - 1) / n in step 3.
// All cores work at once, and no element is reduced twice. Copies begin at the next rank, so that not all ranks read
// the same memory first.
#include "local-comm/local_comm.h"

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
      hub_(join_hub(KeyValue(args.host), rendezvous(), member())) {}

std::unique_ptr<Communicator> LocalCommunicator::join(const tsr_comm_create_args& args) {
  return std::make_unique<LocalCommunicator>(args);
}

void LocalCommunicator::interrupt() noexcept {
  const auto lock = hub_->monitor().lock();
  hub_->monitor().fail(lock, abort_);
}

void LocalCommunicator::run(const Collective& collective) {
  if (collective.is_messages()) return hub_->mailbox().exchange(member(), collective);
  Meeting& meeting = hub_->meetings().enter(member(), collective);
  work(meeting, collective);
  hub_->meetings().leave(meeting, member(), collective);
}

// Between enter and leave nothing throws: the other ranks count on this one to come to the meeting's barriers. What
// reduce() could refuse has been refused by submit.
void LocalCommunicator::work(Meeting& meeting, const Collective& collective) {
  switch (collective.kind) {
    case TSR_COLL_ALL_REDUCE:
      return all_reduce(meeting, collective);
    case TSR_COLL_REDUCE_SCATTER:
      return reduce_own_slice(meeting, collective, collective.recv);
    case TSR_COLL_REDUCE:
      return reduce_own_slice(meeting, collective,
                              slice(meeting.post(collective.peer).recv, collective, member().rank));
    case TSR_COLL_BROADCAST:
      return copy(hub_->monitor(), collective.recv, meeting.post(collective.peer).send,
                  collective.num_elements * collective.element_bytes());
    case TSR_COLL_ALL_GATHER:
    case TSR_COLL_ALL_TO_ALL:
      return copy_slices(meeting, collective);
    default:  // BARRIER: to have entered is all
      return;
  }
}

void LocalCommunicator::reduce_own_slice(Meeting& meeting, const Collective& collective, std::byte* out) {
  const int rank = member().rank;
  reduce(hub_->monitor(), meeting, rank, collective.slice_begin(rank), collective.slice_elements(rank), out);
}

// In place (send == recv) is safe: a rank writes slice i of its memory only after the owner of i, the one reader of it,
// has finished, which is what the barrier says.
void LocalCommunicator::all_reduce(Meeting& meeting, const Collective& collective) {
  reduce_own_slice(meeting, collective, slice(collective.recv, collective, member().rank));
  hub_->meetings().pass(meeting);
  for (int step = 1; step < member().num_ranks; ++step) {
    const int owner = (member().rank + step) % member().num_ranks;
    copy(hub_->monitor(), slice(collective.recv, collective, owner), slice(meeting.post(owner).recv, collective, owner),
         collective.slice_elements(owner) * collective.element_bytes());
  }
}

// ALL_GATHER takes the whole send of each rank, ALL_TO_ALL the slice of it that is meant for this rank. In place a
// gather's own slice is its own source, which copy() leaves alone.
void LocalCommunicator::copy_slices(const Meeting& meeting, const Collective& collective) {
  const bool is_gather = collective.kind == TSR_COLL_ALL_GATHER;
  const std::vector<uint64_t>& offsets = is_gather ? collective.offsets : collective.recv_offsets;
  const uint64_t element_bytes = collective.element_bytes();
  for (int step = 0; step < member().num_ranks; ++step) {
    const int from = (member().rank + step) % member().num_ranks;
    const Collective& post = meeting.post(from);
    const std::byte* source = is_gather ? post.send : slice(post.send, post, member().rank);
    const uint64_t begin = offsets[static_cast<size_t>(from)];
    copy(hub_->monitor(), collective.recv + begin * element_bytes, source,
         (offsets[static_cast<size_t>(from) + 1] - begin) * element_bytes);
  }
}

}  // namespace tessera::local
