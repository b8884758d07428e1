// Scales features to [0, 1].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/train_config.h"
#include "data/examples/example_table.h"

namespace tessera::host {

/// The value that becomes 0 and the one that becomes 1, for each column or for all. They depend only on the data, so
/// they are equal on all ranks. Const functions are [any-thread].
class FeatureScale {
 public:
  /// As `asked`, or by default by the kind of the features: `columns` by the least and greatest value of each column,
  /// `values` by those of the whole table, `bytes` by 0 and 255. Reads the table at most once.
  FeatureScale(const ExampleTable& table, int64_t num_features, std::optional<DataScale> asked);

  /// Scales a row in place. Where all values of a column or table are equal, they become 0.
  void apply(std::span<float> row) const;

  /// One value, one for each column, or none: features are not scaled.
  std::span<const float> least() const { return least_; }
  std::span<const float> greatest() const { return greatest_; }

 private:
  void measure(const ExampleTable& table, int64_t num_features);

  std::vector<float> least_, greatest_;
};

}  // namespace tessera::host
