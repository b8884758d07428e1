// Tokens are sorted by logit, equal ones by number, so that what top_k and top_p keep is defined; probabilities are
// added in that order. The random number of draw i is Philox of the seed and i: no state but a counter.

#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/philox.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// In [0, 1), of 53 random bits.
double uniform(uint64_t seed, uint64_t i) {
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const auto words = philox4x32({low(i), low(i >> 32), 0, 0}, {low(seed), low(seed >> 32)});
  const uint64_t bits = uint64_t{words[0]} << 21 ^ words[1] >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

/// The tokens that may be drawn, most probable first.
std::vector<int32_t> candidates(std::span<const float> logits, int64_t top_k) {
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto num_kept = top_k == 0 ? tokens.size() : std::min(tokens.size(), static_cast<size_t>(top_k));
  std::ranges::partial_sort(tokens, tokens.begin() + static_cast<std::ptrdiff_t>(num_kept), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] != logits[static_cast<size_t>(b)]
               ? logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]
               : a < b;
  });
  tokens.resize(num_kept);
  return tokens;
}

}  // namespace

int32_t Sampler::next(std::span<const float> logits) {
  if (std::ranges::any_of(logits, [](float logit) { return !std::isfinite(logit); }))
    throw Error(TSR_E_FAILED_PRECONDITION, "the model gives logits that are not finite; are its weights damaged?");
  const double random = uniform(options_.seed, num_drawn_++);
  if (options_.temperature == 0) return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  const std::vector<int32_t> tokens = candidates(logits, options_.top_k);
  const double largest = logits[static_cast<size_t>(tokens[0])];
  std::vector<double> sums;  // of probabilities up to each token, not normalized
  for (const int32_t token : tokens)
    sums.push_back((sums.empty() ? 0 : sums.back()) +
                   std::exp((logits[static_cast<size_t>(token)] - largest) / options_.temperature));
  const auto last = std::ranges::lower_bound(sums, options_.top_p * sums.back());
  if (last != sums.end()) sums.erase(last + 1, sums.end());
  const auto drawn = std::ranges::upper_bound(sums, random * sums.back());
  return tokens[static_cast<size_t>(std::min<std::ptrdiff_t>(drawn - sums.begin(), std::ssize(sums) - 1))];
}

}  // namespace tessera::host
