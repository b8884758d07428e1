// Which tokens a micro-batch holds. Part of the contract: equal under every strategy.
#pragma once

#include <cstdint>
#include <span>

#include "data/token_source.h"

namespace tessera::host {

/// Walks through the data. A micro-step takes data_ranks * batch * seq tokens from position() on: data rank r reads
/// the window at position() + r * batch * seq, inputs [a, a + batch * seq), targets shifted by one. When a micro-step's
/// tokens and the last target no longer fit, the walk starts again at 0. [control-thread]
class BatchOrder {
 public:
  /// `source` must outlive this. Throws INVALID_ARGUMENT when the data is shorter than one micro-step.
  BatchOrder(const TokenSource& source, int64_t batch, int64_t seq, int64_t data_ranks);

  /// Position of the current micro-step; what a checkpoint saves.
  uint64_t position() const { return position_; }
  /// Continues from a saved position, also that of a run with another number of data ranks; from 0 if the micro-step
  /// does not fit there. Throws INVALID_ARGUMENT for a position beyond the data.
  void set_position(uint64_t position);

  /// The micro-batch of one data rank, row by row: inputs and targets [batch * seq].
  void read(int64_t data_rank, std::span<int32_t> inputs, std::span<int32_t> targets) const;
  /// Moves to the next micro-step.
  void advance();

 private:
  const TokenSource& source_;
  uint64_t window_tokens_;  // of one rank
  uint64_t step_tokens_;    // of all data ranks
  uint64_t position_ = 0;
};

}  // namespace tessera::host
