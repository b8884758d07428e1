// Examples as their file holds them: unscaled features, and labels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera::host {

/// What the model takes.
struct ExampleShape {
  int64_t num_features = 0;
  int64_t num_classes = 0;  ///< labels are in [0, num_classes)

  bool operator==(const ExampleShape&) const = default;
};

/// Limit of the features held in memory. Larger files are refused, except uncompressed IDX bytes, which are read in
/// place.
inline constexpr uint64_t kMaxFeatureBytes = uint64_t{4} << 30;

/// The features of a file, a row for each example. [any-thread]
class FeatureTable {
 public:
  virtual ~FeatureTable() = default;
  /// out[j] = feature j of the example, which the file must have. Throws DATA_LOSS for a file that was cut since.
  virtual void read(uint64_t example, std::span<float> out) const = 0;
};

/// Features in memory.
template <class T>
class HeldFeatures : public FeatureTable {
 public:
  explicit HeldFeatures(std::vector<T> features) : features_(std::move(features)) {}
  void read(uint64_t example, std::span<float> out) const override {
    const auto begin = features_.begin() + static_cast<std::ptrdiff_t>(example * out.size());
    std::copy_n(begin, out.size(), out.begin());
  }

 private:
  std::vector<T> features_;
};

/// What the values of features are, which decides how they are scaled unless the user does.
enum class FeatureKind {
  columns,  ///< CSV: each column is a quantity of its own
  values,   ///< IDX: all are of one quantity
  bytes     ///< IDX: like `values`, from 0 to 255
};

struct ExampleTable {
  std::unique_ptr<FeatureTable> features;
  std::vector<int32_t> labels;
  FeatureKind kind = FeatureKind::columns;
  std::string description;  ///< "digits.csv: CSV"
};

}  // namespace tessera::host
