// Which examples a micro-batch holds. Part of the contract: equal under every strategy.
#pragma once

#include <cstdint>
#include <span>

#include "data/examples/example_source.h"

namespace tessera::host {

/// Walks through the examples without end, epoch after epoch. Shuffled, each epoch has its own order of all
/// examples, since files are often sorted by label. A micro-step takes the next data_ranks * batch examples, data rank
/// r the r-th `batch` of these; it may span epochs. So the examples of a step depend only on seed and position, not on
/// how the step is divided into ranks and micro-batches. [control-thread]
class ExampleOrder {
 public:
  /// `source` must outlive this, and have an example.
  ExampleOrder(const ExampleSource& source, int64_t batch, int64_t data_ranks, uint64_t seed, bool is_shuffled);

  /// Examples of all epochs before the current micro-step; what a checkpoint saves.
  uint64_t position() const { return position_; }
  /// Continues from a saved position, also that of a run with another number of data ranks.
  void set_position(uint64_t position) { position_ = position; }

  /// The micro-batch of one data rank: features [batch, num_features] in [0, 1] and labels [batch].
  void read(int64_t data_rank, std::span<float> features, std::span<int32_t> labels) const;
  /// Moves to the next micro-step.
  void advance() { position_ += step_examples_; }

 private:
  const ExampleSource& source_;
  uint64_t batch_;          // examples of one rank
  uint64_t step_examples_;  // of all data ranks
  uint64_t seed_;
  bool is_shuffled_;
  uint64_t position_ = 0;
};

}  // namespace tessera::host
