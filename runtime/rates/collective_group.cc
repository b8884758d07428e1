// One communicator, one stream, one number for each collective. The end has an order, after errors too:
//
//     abort            if something failed or was not waited for: ends what is under way
//     end the stream   which waits for what is on it
//     destroy          nothing uses the communicator any more
//
// Until the stream has ended, operations here and on other ranks may use the memory that the caller lent. Waiting is
// done in short parts, since another rank may fail and end the job meanwhile.

#include "rates/collective_group.h"

#include "base/concat.h"
#include "guard/cancel_watch.h"
#include "guard/process_state.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int64_t kPollMs = 200;

}  // namespace

CollectiveGroup::CollectiveGroup(const CommunicatorSetup& setup, const Device& device, const GroupMember& member)
    : setup_(setup),
      device_(device),
      position_(member.position),
      num_ranks_(static_cast<int>(member.world_ranks.size())),
      stream_(make_stream(device, "comm.bench")) {
  const CancelWatch watch(setup.cancelled);
  comm_ = create_communicator(setup, device, member, concat("bench/", setup.epoch, "/", member.name), watch.flag());
}

CollectiveGroup::~CollectiveGroup() {
  stop(false);
}

/// What was submitted, here and by others, may touch the caller's memory until then.
void CollectiveGroup::stop(bool has_failed) noexcept {
  if (!comm_) return;
  if (has_failed || num_waited_ < num_collectives_) end_with(setup_.api->abort, &comm_, uint64_t{1});
  stream_.reset();
  destroy_communicator(*setup_.api, comm_);
  comm_ = nullptr;
}

uint64_t CollectiveGroup::workspace_bytes(const tsr_collective& collective) const {
  uint64_t num_bytes = 0;
  call(setup_.api->describe, &collective, num_ranks_, &num_bytes);
  return num_bytes;
}

void CollectiveGroup::submit(tsr_collective collective) {
  collective.struct_size = sizeof collective;
  collective.stream = stream_.get();
  collective.timeout_ms = setup_.timeout_ms;
  collective.sequence = num_collectives_++;
  try {
    call(setup_.api->submit, comm_, &collective);
  } catch (...) {
    stop(true);
    throw;
  }
}

void CollectiveGroup::wait() try {
  const auto synchronize = device_.api().stream_synchronize;
  for (;;) {
    tsr_error err{};
    const tsr_status status = enter_for(kPollMs, synchronize, stream_.get(), kPollMs, &err);
    if (status == TSR_OK) break;
    if (status != TSR_IN_PROGRESS) check_call(status, err, address_of(synchronize));
    if (setup_.cancelled()) throw Error(TSR_E_CANCELLED, "another rank has failed");
  }
  // Where work cannot fail its stream, the error is here alone.
  call(setup_.api->async_error, comm_);
  num_waited_ = num_collectives_;
} catch (...) {
  stop(true);
  throw;
}

}  // namespace tessera::host
