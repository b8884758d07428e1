// Warnings about token data before training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/token_source.h"

namespace tessera::host {

/// How a run walks through its data (see batch_order.h).
struct DataUse {
  int64_t vocab = 0;              ///< of the model
  int64_t micro_step_tokens = 0;  ///< of all data ranks
  int64_t grad_accum = 1;         ///< micro-steps of a step
  int64_t steps = 0;
};

/// One sentence for each of these: data that may not be what it is read as, bytes of text for a model with a vocabulary
/// of its own, so few tokens that every step sees them all. Empty when nothing is suspicious.
std::vector<std::string> data_warnings(const TokenSource& data, const DataUse& use);

}  // namespace tessera::host
