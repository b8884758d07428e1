// Dynamic loss scaling: shifts small gradients into the range of float16; a step that overflows is skipped.
#pragma once

#include <cstdint>

namespace tessera::host {

/// The rule and constants of PyTorch's GradScaler: the scale starts at 65536, is doubled after 2000 updates in a row,
/// and halved, but not below 1, after a skipped step. It depends only on the outcomes of steps, which are equal on all
/// ranks; so the scale is too.
class LossScaler {
 public:
  static constexpr double kInitialScale = 65536, kGrowth = 2, kBackoff = 0.5, kMinScale = 1;
  static constexpr int64_t kGrowthInterval = 2000;
  /// Skipped steps in a row from kInitialScale to kMinScale.
  static constexpr int64_t kMaxBackoffs = 16;

  /// If not dynamic, the scale is always 1.
  explicit LossScaler(bool is_dynamic) : is_dynamic_(is_dynamic), scale_(is_dynamic ? kInitialScale : 1) {}

  bool is_dynamic() const { return is_dynamic_; }
  /// The scale of the next step.
  double scale() const { return scale_; }
  /// Call it after each step; `updated` is false when the step was skipped because a gradient was not finite.
  void update(bool updated);
  /// Updates in a row since the scale changed.
  int64_t num_updates() const { return num_updates_; }
  /// Goes on as the scaler that had these; does nothing if not dynamic.
  void restore(double scale, int64_t num_updates) {
    if (!is_dynamic_) return;
    scale_ = scale;
    num_updates_ = num_updates;
  }

 private:
  bool is_dynamic_;
  double scale_;
  int64_t num_updates_ = 0;  // since the scale changed
};

}  // namespace tessera::host
