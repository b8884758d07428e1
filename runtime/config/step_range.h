// The value of --profile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::host {

/// Steps from 1 on, both included.
struct StepRange {
  int64_t first = 1, last = 1;
  static constexpr int64_t kMaxSteps = 100;
};

/// "10:12", or "10" for one step. Throws UsageError for another text, and for more than kMaxSteps.
StepRange parse_steps(std::string_view text);
/// "10:12"
std::string print_steps(const StepRange& steps);

}  // namespace tessera::host
