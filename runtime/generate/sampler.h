// Chooses the next token.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::host {

struct SamplerOptions {
  double temperature = 1;  ///< 0: always the most probable token, the first of equal ones
  int64_t top_k = 0;       ///< only the k most probable tokens; 0: all
  double top_p = 1;        ///< only the most probable tokens that together have this probability
  uint64_t seed = 0;
};

/// The i-th token of equal options and logits is the same on every run. [control-thread]
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}

  /// Draws from softmax(logits / temperature), restricted first by top_k, then by top_p. Throws FAILED_PRECONDITION for
  /// logits that are not finite.
  int32_t next(std::span<const float> logits);

 private:
  const SamplerOptions options_;
  uint64_t num_drawn_ = 0;
};

}  // namespace tessera::host
