// Reads --offload. Each policy is given once: its options are named after it, and a second run of it would find that
// what it moves has been moved. `none` is for the command line, over a file of settings that has policies.

#include "config/offload_option.h"

#include <algorithm>

#include "base/concat.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {

std::vector<std::string> parse_offload(std::string_view text) {
  constexpr std::string_view kNone = "none";
  if (text == kNone) return {};
  std::vector<std::string> policies;
  for (const std::string_view policy : split(text, ',')) {
    if (policy.empty())
      throw UsageError(
          concat("--offload '", text,
                 "' has an empty name; give one or more policies with commas between them (tessera plugins "
                 "list shows them), or leave the flag out"));
    if (policy == kNone)
      throw UsageError(concat("--offload '", text, "' has none beside policies; give none alone, or the policies"));
    if (std::ranges::count(policies, policy))
      throw UsageError(concat("--offload names the policy ", policy, " twice; name each once"));
    policies.emplace_back(policy);
  }
  return policies;
}

}  // namespace tessera::host
