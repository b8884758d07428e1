// Which tokens a micro-batch holds when the data is shuffled. Part of the contract: equal under every strategy.
#pragma once

#include <cstdint>
#include <span>

#include "data/token_source.h"

namespace tessera::host {

/// Walks through the sequences of the data without end, epoch after epoch. An epoch cuts the data into sequences of
/// `seq` tokens, at an offset of its own, and has its own order of them; the tokens before the first and past the last,
/// fewer than 2 * seq, are not read in that epoch. A micro-step takes the next data_ranks * batch sequences, data rank
/// r the r-th `batch` of these; it may span epochs. So the sequences of a step depend only on seed and position, not on
/// how the step is divided into ranks and micro-batches. [control-thread]
class SequenceOrder {
 public:
  /// `source` must outlive this. Throws INVALID_ARGUMENT when the data is shorter than a sequence and its last target.
  SequenceOrder(const TokenSource& source, int64_t batch, int64_t seq, int64_t data_ranks, uint64_t seed);

  /// Tokens of all sequences before the current micro-step; what a checkpoint saves.
  uint64_t position() const { return next_ * seq_; }
  /// Continues from a saved position, also that of a run with another batch or number of data ranks.
  void set_position(uint64_t position) { next_ = position / seq_; }

  /// The micro-batch of one data rank, row by row: inputs and targets [batch * seq].
  void read(int64_t data_rank, std::span<int32_t> inputs, std::span<int32_t> targets) const;
  /// Moves to the next micro-step.
  void advance() { next_ += batch_ * data_ranks_; }

 private:
  uint64_t begin_of(uint64_t sequence) const;

  const TokenSource& source_;
  uint64_t batch_, seq_, data_ranks_, seed_;
  uint64_t num_sequences_;  // of an epoch
  uint64_t next_ = 0;       // first sequence of the current micro-step, counted over all epochs
};

}  // namespace tessera::host
