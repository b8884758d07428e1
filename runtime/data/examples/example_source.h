// The examples of `--data` for a classifier: features and a label each, read by number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/train_config.h"
#include "data/examples/example_table.h"
#include "data/examples/feature_scale.h"

namespace tessera::host {

struct ExampleOptions {
  ExampleShape shape;
  std::optional<LabelColumn> label;  ///< CSV only; default: last
  std::optional<DataScale> scale;    ///< default: by the format, see feature_scale.h
  /// Of data to evaluate on: the scale of the training data, which counts in place of `scale`.
  std::optional<FeatureScale> trained = std::nullopt;
};

/// Examples with scaled features. [any-thread]
class ExampleSource {
 public:
  ExampleSource(ExampleTable table, const ExampleOptions& options);

  const ExampleShape& shape() const { return shape_; }
  uint64_t num_examples() const { return table_.labels.size(); }
  /// How many examples each class has.
  const std::vector<uint64_t>& class_counts() const { return class_counts_; }
  const FeatureScale& scale() const { return scale_; }

  /// features[i * num_features + j]: feature j of examples[i]; labels[i]: its label. Examples are numbered in the order
  /// of their file, and must be in it. Throws DATA_LOSS for a file that was cut since it was opened.
  void read(std::span<const uint32_t> examples, std::span<float> features, std::span<int32_t> labels) const;

  /// What the data was taken for, for the log: "digits.csv: CSV, label in the last column (1797 examples)".
  std::string description() const;

 private:
  ExampleShape shape_;
  ExampleTable table_;
  FeatureScale scale_;
  std::vector<uint64_t> class_counts_;
};

/// Opens a CSV file or a pair of IDX files (see csv_file.h, idx_file.h and idx_pair.h). Everything is checked here
/// except the values of bytes, of which none is wrong. Memory: 4 bytes for each label; for each feature 4 bytes, 1 for
/// compressed IDX bytes, none for plain ones. Throws INVALID_ARGUMENT naming the file and the line or byte, UsageError
/// for a `path` that names nothing and for a label column of IDX files.
std::unique_ptr<ExampleSource> open_examples(const std::string& path, const ExampleOptions& options);

/// SHA-256 of scaled features and labels, or, above 64 MiB, of 256 blocks of examples spread evenly over them: what
/// ranks compare.
std::string content_hash(const ExampleSource& source);

/// What leaving out `flag`, "data-label" or "data-scale", means for the examples at `path`: "last" and "column" for
/// CSV, "file" for IDX. Empty where no value of the flag means the same: the label of IDX, the scale of IDX bytes.
/// Throws as open_examples() for a path or a header that cannot be read.
std::string usual_setting(std::string_view flag, const std::string& path);

/// Throws UsageError for a flag that applies only to the data of classifiers.
void refuse_example_flags(const TrainConfig& config);

}  // namespace tessera::host
