#include "train/meters/time_meter.h"

#include <algorithm>

namespace tessera::host {

void TimeMeter::add_step(double ms) {
  steps_ += ms * 1e-3;
  step_ms_.push_back(static_cast<float>(ms));
}

StepDurations TimeMeter::step_times() const {
  if (step_ms_.empty()) return {};
  std::vector<float> sorted = step_ms_;
  std::ranges::sort(sorted);
  const auto at = [&](size_t tenths) { return double{sorted[(sorted.size() - 1) * tenths / 10]}; };
  return {at(5), at(1), at(9)};
}

}  // namespace tessera::host
