// The margin is for what a plan of addresses takes beyond the bytes in use: the host's planner prefers addresses that
// need no wait as long as they end within 2 % of those. Where it takes more, the host asks again with less.

#include "fit.h"

#include <array>
#include <cstdio>

#include "choice.h"

namespace tessera::fit {
namespace {

std::string size_text(double num_bytes) {
  constexpr double kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;
  std::array<char, 32> text{};
  if (num_bytes >= kGiB)
    std::snprintf(text.data(), text.size(), "%.1f GiB", num_bytes / kGiB);
  else if (num_bytes >= kMiB)
    std::snprintf(text.data(), text.size(), "%.1f MiB", num_bytes / kMiB);
  else
    std::snprintf(text.data(), text.size(), "%.1f KiB", num_bytes / kKiB);
  return text.data();
}

}  // namespace

Fit::Fit(std::span<const tsr_option_value> options)
    : place_(place_option(options)),
      margin_(option(options, "margin").d),
      distances_{static_cast<uint32_t>(option(options, "ahead").i),
                 static_cast<uint32_t>(option(options, "linger").i)} {}

void Fit::plan(const OffloadView& view, const OffloadSink& sink) const {
  if (!has_place(view, place_) || view.visits().empty()) return;
  if (view.raw.device_bytes == UINT64_MAX)
    throw Error(TSR_E_INVALID_ARGUMENT, "fit needs --device-memory: what a rank may take of its device");
  const double limit = (1 - margin_) * static_cast<double>(view.raw.device_bytes);
  Choice choice(view, distances_, static_cast<uint64_t>(limit));
  choice.run();
  if (choice.excess() > 0)
    throw Error(TSR_E_RESOURCE_EXHAUSTED, view.describe(choice.highest_visit()) + ", alone needs " +
                                              size_text(limit + static_cast<double>(choice.excess())) +
                                              " of device memory, whatever else leaves; it may take " +
                                              size_text(limit));
  for (const MovableItem& movable : choice.items())
    for (const uint32_t visit : movable.leaving_visits())
      sink.leave({movable.item().buffer, visit, place_, distances_.ahead, distances_.linger});
}

}  // namespace tessera::fit
