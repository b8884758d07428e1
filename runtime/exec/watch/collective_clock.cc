#include "exec/watch/collective_clock.h"

#include <chrono>

#include "base/concat.h"
#include "guard/call_watch.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"

namespace tessera::host {
namespace {

using std::chrono::milliseconds;

// A collective that exceeds its time-out by these ends the run.
constexpr milliseconds kGrace(2'000);
constexpr int kGraceShare = 20;

}  // namespace

void CollectiveClock::begin_run() {
  submitted_.clear();
  begun_.begin();
  ended_.begin();
  stall_.begin();
}

void CollectiveClock::submit_begin(const RankStream& stream, const tsr_collective& collective) {
  submitted_.push_back(&collective);
  call(stream.api().host_function, stream.handle, &Arrivals::arrive, &begun_);
}

void CollectiveClock::submit_end(const RankStream& stream) {
  call(stream.api().host_function, stream.handle, &Arrivals::arrive, &ended_);
}

void CollectiveClock::check(const std::string& communicator, const void* submit) {
  const uint64_t num_ended = ended_.count.load(std::memory_order_acquire), num_begun = begun_.count;
  const bool is_at_work = num_begun > num_ended && num_begun <= submitted_.size();
  if (!is_at_work) return stall_.begin();
  const tsr_collective& c = *submitted_[num_begun - 1];
  const milliseconds timeout(c.timeout_ms);
  if (stall_.look(num_begun) <= timeout + kGrace + timeout / kGraceShare) return;
  end_run(concat(plugin_text(submit), " has not ended ", view(c.label), " on ", communicator, " (its collective ",
                 c.sequence, ") within ", c.timeout_ms, " ms, and reported no error, so the run ends"));
}

}  // namespace tessera::host
