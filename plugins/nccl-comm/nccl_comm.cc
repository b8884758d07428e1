// Maps the ABI's functions to calls of a Session. The order of construction matters: everything that may fail on one
// rank (arguments, GPU, library, rendezvous) comes before join(), the first call in which other ranks wait. If join()
// throws, the watchdog's destructor ends the session.
#include "nccl-comm/nccl_comm.h"

#include "nccl-comm/enqueue.h"
#include "nccl-comm/rendezvous.h"
#include "tessera/collective_check.hpp"
#include "tessera/rendezvous.hpp"

namespace tessera::nccl_comm {
namespace {

constexpr const char* kPlugin = "nccl-comm";
constexpr std::string_view kStreamKind = "cuda.stream";

/// Checked before the first call of CUDA.
Member checked_member(const tsr_comm_create_args& args) {
  Member member = make_member(kPlugin, args);
  if (view(args.device_interface->stream_kind) != kStreamKind)
    throw Error(TSR_E_UNSUPPORTED, member.where() + ": supports streams of the kind cuda.stream, not " +
                                       to_string(args.device_interface->stream_kind) + "; use --device cuda");
  return member;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const tsr_comm_create_args& args)
    : member_(checked_member(args)),
      rendezvous_(to_string(args.rendezvous)),
      host_(args.host),
      device_interface_(args.device_interface),
      device_(args.device),
      gpu_(device_interface_, device_),
      session_(std::make_shared<Session>(Library::open(), member_, gpu_.index(), host_, rendezvous_)),
      watchdog_(session_) {
  const Deadline deadline(member_.timeout_ms);
  const ncclUniqueId id =
      agree_on_unique_id(KeyValue(host_), rendezvous_, member_, this_location(gpu_), session_->nccl(), deadline);
  session_->join(id, deadline);
}

NcclCommunicator::NcclCommunicator(const NcclCommunicator& parent, Member member, std::string rendezvous,
                                   std::shared_ptr<Session> session)
    : member_(std::move(member)),
      rendezvous_(std::move(rendezvous)),
      host_(parent.host_),
      device_interface_(parent.device_interface_),
      device_(parent.device_),
      gpu_(device_interface_, device_),
      session_(std::move(session)),
      watchdog_(session_) {}

void NcclCommunicator::submit(const tsr_collective& source) {
  read_collective(source, member_, collective_);
  if (collective_.kind != TSR_COLL_BARRIER && !has_dtype(collective_.dtype))
    throw collective_error(TSR_E_UNSUPPORTED, member_, collective_, "has a dtype that NCCL does not support");
  if (!group_.take(collective_)) run(collective_);
}

void NcclCommunicator::group_end() {
  Collective& messages = group_.end();
  if (!messages.transfers.empty()) run(messages);
}

// Tickets count the collectives of all members, equally on all ranks; StatusBoard compares them to find the late ranks.
void NcclCommunicator::run(Collective& collective) {
  if (!collective.is_messages()) collective.ticket = num_collectives_++;
  auto* const stream = static_cast<cudaStream_t>(device_interface_->native_handle(collective.stream, str(kStreamKind)));
  if (!stream)
    throw collective_error(TSR_E_INVALID_ARGUMENT, member_, collective,
                           "was submitted to a stream that is not a CUDA stream");
  session_->run(collective, stream, [&](ncclComm_t comm) {
    return enqueue({session_->nccl(), comm, member_.rank, member_.num_ranks, gpu_.scratch(), stream}, collective);
  });
}

// The members agree in the store on the new groups first, since NCCL returns only a communicator; then all members,
// also those in no new group, take part in ncclCommSplit.
std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, std::string_view name) {
  const Deadline deadline(member_.timeout_ms);
  const std::string prefix = rendezvous_ + "/split/" + std::to_string(num_splits_++);
  const auto group = agree_on_split(KeyValue(host_), prefix, member_, color, key, session_->aborted());
  if (!group) {
    session_->split(color, key, nullptr, deadline);
    return nullptr;
  }
  Member member{member_.plugin,     std::string(name), group->rank, static_cast<int>(group->world_ranks.size()),
                group->world_ranks, member_.timeout_ms};
  std::string rendezvous = prefix + "/color/" + std::to_string(color);
  auto session = std::make_shared<Session>(session_->shared_nccl(), member, gpu_.index(), host_, rendezvous);
  session_->split(color, key, session, deadline);
  return std::unique_ptr<Communicator>(
      new NcclCommunicator(*this, std::move(member), std::move(rendezvous), std::move(session)));
}

}  // namespace tessera::nccl_comm
