// Maps the ABI's functions to calls of a Session. The order of construction matters: everything that may fail on one
// rank (arguments, GPU, library, rendezvous) comes before join(), the first call in which other ranks wait. If join()
// throws, the watchdog's destructor ends the session.
#include "nccl-comm/nccl_comm.h"

#include <cstdlib>

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

/// NCCL reads its environment when the first communicator of the process is made. A user's own choice is kept.
std::shared_ptr<const Library> open_library(const Settings& settings) {
  if (settings.keeps_order) setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  return Library::open();
}

}  // namespace

NcclCommunicator::NcclCommunicator(const tsr_comm_create_args& args, const Settings& settings)
    : member_(checked_member(args)),
      device_interface_(args.device_interface),
      gpu_(device_interface_, args.device),
      session_(std::make_shared<Session>(open_library(settings), member_, settings, gpu_.index(), args.host,
                                         to_string(args.rendezvous))),
      watchdog_(session_) {
  const Deadline deadline(member_.timeout_ms);
  const CancelFlag cancel(args.cancel);
  const ncclUniqueId id = agree_on_unique_id(KeyValue(args.host), to_string(args.rendezvous), member_,
                                             this_location(gpu_), session_->nccl(), deadline, cancel);
  session_->join(id, deadline, cancel);
}

void NcclCommunicator::submit(const tsr_collective& source) {
  read_collective(source, member_, collective_);
  stream_.require(member_, collective_);
  run(collective_);
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

}  // namespace tessera::nccl_comm
