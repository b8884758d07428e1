// Linear scaling by least and greatest values, in double and rounded once, so that the greatest becomes exactly 1 and a
// byte b exactly the float nearest to b / 255.

#include "data/examples/feature_scale.h"

#include <algorithm>

namespace tessera::host {
namespace {

DataScale by_kind(FeatureKind kind) {
  return kind == FeatureKind::columns ? DataScale::column : DataScale::file;
}

}  // namespace

FeatureScale::FeatureScale(const ExampleTable& table, int64_t num_features, std::optional<DataScale> asked) {
  if (asked == DataScale::none) return;
  if (!asked && table.kind == FeatureKind::bytes) {
    least_ = {0};
    greatest_ = {255};
    return;
  }
  measure(table, num_features);
  if (asked.value_or(by_kind(table.kind)) == DataScale::column) return;
  least_ = {*std::ranges::min_element(least_)};
  greatest_ = {*std::ranges::max_element(greatest_)};
}

void FeatureScale::measure(const ExampleTable& table, int64_t num_features) {
  std::vector<float> row(static_cast<std::size_t>(num_features));
  for (uint64_t example = 0; example < table.labels.size(); ++example) {
    table.features->read(example, row);
    if (example == 0) least_ = greatest_ = row;
    for (std::size_t j = 0; j < row.size(); ++j) {
      least_[j] = std::min(least_[j], row[j]);
      greatest_[j] = std::max(greatest_[j], row[j]);
    }
  }
}

void FeatureScale::apply(std::span<float> row) const {
  if (least_.empty()) return;
  const bool is_one = least_.size() == 1;
  for (std::size_t j = 0; j < row.size(); ++j) {
    const double least = least_[is_one ? 0 : j], range = greatest_[is_one ? 0 : j] - least;
    row[j] = range > 0 ? static_cast<float>((row[j] - least) / range) : 0;
  }
}

}  // namespace tessera::host
