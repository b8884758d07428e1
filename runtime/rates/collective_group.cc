// One communicator, one stream, one number for each collective. The end has an order, after errors too:
//
//     abort            if something failed or was not waited for: ends what is under way
//     end the stream   which waits for what is on it
//     destroy          nothing uses the communicator any more
//
// Until the stream has ended, operations here and on other ranks may use the memory that the caller lent. Waiting is
// done in short parts, since another rank may fail and end the job meanwhile.

#include "rates/collective_group.h"

#include <chrono>

#include "base/concat.h"
#include "guard/call_watch.h"
#include "guard/cancel_watch.h"
#include "guard/known_functions.h"
#include "guard/process_state.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int64_t kPollMs = 200;
// A communicator has its own time-outs, with better messages.
constexpr int64_t kGraceMs = 2'000;
constexpr int64_t kGraceShare = 20;
constexpr int64_t kCopyMs = 60'000;  // of fills and copies between collectives

}  // namespace

CollectiveGroup::CollectiveGroup(const CommunicatorSetup& setup, const Device& device, const GroupMember& member)
    : setup_(setup),
      device_(device),
      position_(member.position),
      num_ranks_(static_cast<int>(member.world_ranks.size())),
      name_(member.name),
      stream_(make_stream(device, "comm.bench")) {
  if (view(device.api().stream_kind) == kHostStreamKind) clock_.emplace().begin_run();
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
  submitted_.push_back(collective);
  const RankStream stream{&device_, stream_.get()};
  try {
    if (clock_) clock_->submit_begin(stream, submitted_.back());
    call(setup_.api->submit, comm_, &submitted_.back());
    if (clock_) clock_->submit_end(stream);
  } catch (...) {
    stop(true);
    throw;
  }
}

void CollectiveGroup::check_time(Stall& stall) {
  const auto submit = address_of(setup_.api->submit);
  if (clock_) clock_->check(name_, submit);
  const auto num_collectives = static_cast<int64_t>(submitted_.size());
  const int64_t limit_ms = kCopyMs + num_collectives * (setup_.timeout_ms + setup_.timeout_ms / kGraceShare + kGraceMs);
  if (std::chrono::duration_cast<std::chrono::milliseconds>(stall.look(0)).count() <= limit_ms) return;
  const std::string what = num_collectives ? concat(num_collectives, " collectives on ", name_) : "its work";
  end_run(concat(plugin_text(num_collectives ? submit : address_of(device_.api().stream_synchronize)),
                 " has not ended ", what, " within ", limit_ms, " ms, and reported no error, so the run ends"));
}

void CollectiveGroup::wait() try {
  const auto synchronize = device_.api().stream_synchronize;
  Stall stall;
  stall.begin();
  for (;;) {
    tsr_error err{};
    const tsr_status status = enter_for(kPollMs, synchronize, stream_.get(), kPollMs, &err);
    if (status == TSR_OK) break;
    if (status != TSR_IN_PROGRESS) check_call(status, err, address_of(synchronize));
    if (setup_.cancelled()) throw Error(TSR_E_CANCELLED, "another rank has failed");
    check_time(stall);
  }
  // Where work cannot fail its stream, the error is here alone.
  call(setup_.api->async_error, comm_);
  num_waited_ = num_collectives_;
  submitted_.clear();
  if (clock_) clock_->begin_run();
} catch (...) {
  stop(true);
  throw;
}

}  // namespace tessera::host
