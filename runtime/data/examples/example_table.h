// Examples as a file has them: features before they are scaled, and labels.
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

/// Features held in memory would be more than this: such a file is refused, but for uncompressed IDX bytes, which are
/// read where they are.
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

/// What the values of a feature are, which decides how they are scaled unless the user does.
enum class FeatureKind {
  columns,  ///< of CSV: each column has a quantity of its own
  values,   ///< of IDX: all are of one quantity
  bytes     ///< of IDX: as `values`, from 0 to 255
};

struct ExampleTable {
  std::unique_ptr<FeatureTable> features;
  std::vector<int32_t> labels;
  FeatureKind kind = FeatureKind::columns;
  std::string description;  ///< "digits.csv: CSV"
};

}  // namespace tessera::host
