// --profile 10:12 is three steps, --profile 10 one: both ends are included, and steps count from 1 as in the log. The
// limit of the length bounds the trace, which holds every action of every rank.

#include "config/step_range.h"

#include <limits>

#include "base/concat.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {

StepRange parse_steps(std::string_view text) {
  constexpr int64_t kLastStep = std::numeric_limits<int64_t>::max();
  const std::vector<std::string_view> parts = split(text, ':');
  const auto step = [&](std::string_view part) {
    try {
      return parse_integer("profile", part, 1, kLastStep);
    } catch (const UsageError&) {
      throw UsageError(concat("--profile is '", text, "'; give a step, from 1 on, or FROM:TO, such as 10:12"));
    }
  };
  const int64_t first = step(parts.front()), last = step(parts.size() > 2 ? "" : parts.back());
  if (last < first)
    throw UsageError(
        concat("--profile is '", text, "', which ends before it begins; give FROM:TO, such as ", last, ":", first));
  if (last - first >= StepRange::kMaxSteps)
    throw UsageError(concat("--profile is '", text, "', which is more than ", StepRange::kMaxSteps,
                            " steps; give fewer, such as ", first, ":", first + 9));
  return {first, last};
}

std::string print_steps(const StepRange& steps) {
  return concat(steps.first, ":", steps.last);
}

}  // namespace tessera::host
