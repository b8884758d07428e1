#include "exec/watch/progress_clock.h"

#include <chrono>

#include "base/concat.h"
#include "guard/call_watch.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"

namespace tessera::host {
namespace {

constexpr size_t kFewActions = 8, kManyActions = 64;
// More than a collective is given (collective_clock.cc), so that a communicator is blamed for what is its own.
constexpr std::chrono::milliseconds kGrace(10'000);
constexpr int kGraceShare = 10;

}  // namespace

ProgressClock::ProgressClock(const Device& device)
    : device_(device),
      actions_of_mark_(device.table<tsr_device_capture>(TSR_DEVICE_CAPTURE) ? kManyActions : kFewActions) {
  passed_.compares = actions_of_mark_ == kFewActions;
}

void ProgressClock::begin_run() {
  passed_.begin();
  stall_.begin();
}

void ProgressClock::issued(size_t index, const RankStream& stream) {
  if ((index + 1) % actions_of_mark_ == 0) call(stream.api().host_function, stream.handle, &Arrivals::arrive, &passed_);
}

void ProgressClock::issued_all(std::span<const RankStream> streams) {
  if (!passed_.compares) return;
  for (const RankStream& stream : streams)
    call(stream.api().host_function, stream.handle, &Arrivals::arrive, &passed_);
}

void ProgressClock::check(int64_t timeout_ms) {
  const std::chrono::milliseconds timeout(timeout_ms), limit = timeout + timeout / kGraceShare + kGrace;
  if (stall_.look(passed_.count) <= limit) return;
  end_run(concat(plugin_text(address_of(device_.api().launch)), " has ended none of its work for ", limit.count(),
                 " ms (1.1 x --timeout-ms, and 10 s), and reported no error, so the run ends"));
}

}  // namespace tessera::host
