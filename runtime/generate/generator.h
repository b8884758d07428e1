// A language model that continues a sequence of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "generate/forward.h"
#include "model/parameter_source.h"

namespace tessera::host {

/// Holds all parameters in host memory, and keys and values of the tokens so far. A token costs the products of one
/// row, and attention to the tokens before it: it does not compute those again, until the model's context is full.
/// Then the older half is forgotten and the rest is computed anew, at positions from 0 on. [control-thread]
class Generator {
 public:
  /// Reads the weights. `device` computes in host memory, and outlives this. `context`: tokens to look back on at most;
  /// 0: as many as the model can. Throws UNSUPPORTED for a model that does not predict tokens, INVALID_ARGUMENT for a
  /// context that it does not have, and what reading throws.
  Generator(std::shared_ptr<const Architecture> architecture, const ParameterSource& weights, const Device& device,
            int64_t context = 0);

  int64_t vocab() const { return inputs_.vocab; }
  /// Tokens that the model looks back on, at most.
  int64_t context() const { return context_; }

  /// Begins a sequence. Of a longer prompt only the last context() tokens are taken. Returns the logits of the token
  /// after it; they stay until the next call. Throws INVALID_ARGUMENT for an empty prompt. [vocab]
  std::span<const float> start(std::span<const int32_t> prompt);
  /// Adds a token.
  std::span<const float> append(int32_t token);

 private:
  ForwardSetup setup() { return {*architecture_, device_, weights_, caches_}; }

  const std::shared_ptr<const Architecture> architecture_;
  const TokenInputs inputs_;
  const int64_t context_;
  const Device& device_;
  std::vector<std::vector<float>> weights_;
  std::vector<KeyValueCache> caches_;
  std::vector<int32_t> tokens_;  // whose keys and values are in the caches
  std::unique_ptr<Forward> start_, next_;
};

}  // namespace tessera::host
