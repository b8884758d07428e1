#include "config/parsed_flags.h"

#include <algorithm>

#include "config/checkpoint_flags.h"

namespace tessera::host {
namespace {

/// What only training asks: `eval` has no such flags, as they would change nothing.
bool is_of_training(const Flag& flag) {
  constexpr std::string_view kOfTraining[] = {
      "eval-data",         "eval-every", "grad-accum",  "reduce-dtype", "reduce-every",  "recompute",
      "max-skipped-steps", "offload",    "offload-dir", "offload-io",   "offload-check", "offload-chunk",
      "cuda-graph",        "seed",       "host-memory", "out",          "profile",       "profile-out"};
  return flag.group == kOptimisation || flag.group == kCheckpoints || std::ranges::count(kOfTraining, flag.name) > 0;
}

}  // namespace

bool has_flag(FlagSet set, const Flag& flag) {
  return set != FlagSet::eval || !is_of_training(flag);
}

}  // namespace tessera::host
