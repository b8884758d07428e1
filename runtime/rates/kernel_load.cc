// What compute keeps of its speed beside other work, from turns that alternate:
//
//     compute stream    clock | launch launch ... | clock    clock | launch launch ... | clock    ...
//     this thread       (waits)                              (other work, as long as compute runs)
//
// Each turn has the same number of launches, and the stream itself reads the clock, so waking up this thread does not
// count. The pairs are neighbors in time: what slows the whole machine down for a while slows both. The median of the
// pairs' shares counts. A share above 1 is noise, and becomes 1.

#include "rates/kernel_load.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTurns = 5;  // alone and beside other work
constexpr int64_t kTurnMs = 600'000;
constexpr std::chrono::seconds kSlack{60};  // of a turn, besides ten times the time of its launches

/// The time of several launches.
struct Span {
  Clock::time_point start, end;
  std::atomic<bool> computes{true};
};

tsr_status start_span(void* self, tsr_error*) noexcept {
  static_cast<Span*>(self)->start = Clock::now();
  return TSR_OK;
}

tsr_status end_span(void* self, tsr_error*) noexcept {
  auto& span = *static_cast<Span*>(self);
  span.end = Clock::now();
  span.computes = false;
  return TSR_OK;
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Seconds of that many launches, with `meanwhile` on this thread.
double KernelLoad::run(uint64_t num_times, const Meanwhile& meanwhile) const {
  Span span;
  call(device.api().host_function, stream, &start_span, &span);
  for (uint64_t i = 0; i < num_times; ++i)
    call(device.api().launch, kernel, stream, pointers.data(), pointers.size());
  call(device.api().host_function, stream, &end_span, &span);
  const auto latest =
      Clock::now() + kSlack +
      std::chrono::duration_cast<Clock::duration>(10 * num_times * std::chrono::duration<double>(seconds));
  try {
    meanwhile([&] { return span.computes.load() && Clock::now() < latest; });
  } catch (...) {
    tsr_error err{};
    enter_for(kTurnMs, device.api().stream_synchronize, stream, kTurnMs, &err);  // until nothing uses `span`
    throw;
  }
  synchronize(device, stream, kTurnMs);
  if (span.computes) end_by_early_ok(device, "the host function after the launches had not run");
  return std::chrono::duration<double>(span.end - span.start).count();
}

double KernelLoad::share_kept(double total_seconds, const Meanwhile& work) const {
  const auto num_times = static_cast<uint64_t>(std::max(1.0, total_seconds / kTurns / seconds));
  std::vector<double> shares;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double alone = run(num_times, [](const auto&) {});
    shares.push_back(alone / run(num_times, work));
  }
  return std::clamp(median(shares), 1e-3, 1.0);
}

}  // namespace tessera::host
