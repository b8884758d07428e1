// Dynamic loss scaling: small gradients are lifted into the range of float16, and a step that overflows is skipped.
#pragma once

#include <cstdint>

namespace tessera::host {

/// The rule and the numbers of PyTorch's GradScaler: the scale starts at 65536, is doubled after 2000 updates in a row,
/// and halved, not below 1, after a step that was skipped. A pure function of the steps' outcomes, which are equal on
/// all ranks; so is the scale.
class LossScaler {
 public:
  static constexpr double kInitialScale = 65536, kGrowth = 2, kBackoff = 0.5, kMinScale = 1;
  static constexpr int64_t kGrowthInterval = 2000;
  /// Steps in a row that are skipped until kInitialScale has become kMinScale.
  static constexpr int64_t kMostBackoffs = 16;

  /// Not dynamic: the scale is 1 for ever.
  explicit LossScaler(bool is_dynamic) : is_dynamic_(is_dynamic), scale_(is_dynamic ? kInitialScale : 1) {}

  bool is_dynamic() const { return is_dynamic_; }
  /// Of the next step.
  double scale() const { return scale_; }
  /// After each step; false: it was skipped, because a gradient was not finite.
  void update(bool updated);

 private:
  bool is_dynamic_;
  double scale_;
  int64_t num_updates_ = 0;  // since the scale changed
};

}  // namespace tessera::host
