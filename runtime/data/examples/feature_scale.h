// Features to [0, 1].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/train_config.h"
#include "data/examples/example_table.h"

namespace tessera::host {

/// For each column, or for all alike, the value that becomes 0 and the one that becomes 1. The result depends on the
/// data alone, so it is the same on all ranks. Const functions are [any-thread].
class FeatureScale {
 public:
  /// As `asked`, or, when nothing is asked, by the kind of the features: `columns` by the least and greatest value of
  /// each column, `values` by those of the whole table, `bytes` by 0 and 255. Reads the table once where it has to.
  FeatureScale(const ExampleTable& table, int64_t num_features, std::optional<DataScale> asked);

  /// Scales a row in place. Of a column, or a table, whose values are all equal every value becomes 0.
  void apply(std::span<float> row) const;

  /// One value each, one for each column, or none: the features stay as they are.
  std::span<const float> least() const { return least_; }
  std::span<const float> greatest() const { return greatest_; }

 private:
  void measure(const ExampleTable& table, int64_t num_features);

  std::vector<float> least_, greatest_;
};

}  // namespace tessera::host
