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
      actions_of_mark_(device.table<tsr_device_capture>(TSR_DEVICE_CAPTURE) ? kManyActions : kFewActions) {}

void ProgressClock::begin_run() {
  for (auto& [device, marks] : marks_) {
    marks.num_issued = 0;
    marks.passed.begin();
  }
  stall_.begin();
}

void ProgressClock::mark(const RankStream& stream) {
  const auto [found, is_new] = marks_.try_emplace(stream.device);
  Marks& marks = found->second;
  if (is_new) {
    marks.passed.compares = actions_of_mark_ == kFewActions;
    marks.passed.begin();
  }
  call(stream.api().host_function, stream.handle, &Arrivals::arrive, &marks.passed);
  ++marks.num_issued;  // not one that the device refuses
}

void ProgressClock::issued(size_t index, const RankStream& stream) {
  if (stream.device != &device_ || (index + 1) % actions_of_mark_ == 0) mark(stream);
}

void ProgressClock::issued_all(std::span<const RankStream> streams) {
  for (const RankStream& stream : streams)
    mark(stream);
}

void ProgressClock::check(int64_t timeout_ms) {
  const std::chrono::milliseconds timeout(timeout_ms), limit = timeout + timeout / kGraceShare + kGrace;
  uint64_t num_passed = 0;
  for (const auto& [device, marks] : marks_)
    num_passed += marks.passed.count;
  if (stall_.look(num_passed) <= limit) return;
  end_run(concat(plugin_text(address_of(device_.api().launch)), " has ended none of its work for ", limit.count(),
                 " ms (1.1 x --timeout-ms, and 10 s), and reported no error, so the run ends"));
}

void ProgressClock::check_end() const {
  for (const auto& [device, marks] : marks_) {
    const uint64_t passed = marks.passed.count.load(std::memory_order_acquire), issued = marks.num_issued;
    if (passed < issued)
      end_by_early_ok(*device, concat(issued - passed, " of ", issued, " host functions on its streams had not run"));
    if (passed > issued)
      end_run(concat(call_text(address_of(device->api().host_function)), " has run ", issued, " functions ", passed,
                     " times instead of once each, so the run ends"));
  }
}

}  // namespace tessera::host
