// --recompute: full means every=1. K is checked against the number of blocks once the model is known (job/job.cc).

#include "config/recompute_option.h"

#include "base/concat.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

constexpr std::string_view kEvery = "every=";
// Of any model: the number of blocks is not known yet.
constexpr int kMaxBlocks = 1 << 20;

}  // namespace

Recompute parse_recompute(std::string_view text) {
  if (text == "none") return {};
  if (text == "full") return {Recompute::What::blocks, 1};
  if (text == "attention") return {Recompute::What::attention, 1};
  if (text.starts_with(kEvery)) {
    const auto number = text.substr(kEvery.size());
    return {Recompute::What::blocks, static_cast<int>(parse_integer("recompute every", number, 1, kMaxBlocks))};
  }
  throw UsageError(concat("--recompute is '", text, "'; give none, full, every=K (every K-th block) or attention"));
}

std::string to_string(const Recompute& recompute) {
  switch (recompute.what) {
    case Recompute::What::none:
      return "none";
    case Recompute::What::attention:
      return "attention";
    default:
      return recompute.every == 1 ? "full" : concat(kEvery, recompute.every);
  }
}

}  // namespace tessera::host
