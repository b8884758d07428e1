// Measures how a rank spends its time.
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.h"

namespace tessera::host {

/// Milliseconds of steps: half of them took less than the median, a tenth less than `low`, a tenth more than `high`.
struct StepDurations {
  double median = 0, low = 0, high = 0;
};

/// Starts when it is made. [control-thread]
class TimeMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// The preparation before the first step has ended.
  void begin_steps() { preparing_ = seconds(); }
  void add_step(double ms);
  void add_evaluation(double seconds) { evaluations_ += seconds; }
  /// Time in which steps wait for a checkpoint.
  void add_saving(double seconds) { saving_ += seconds; }

  double seconds() const { return seconds_since(start_); }
  double preparing() const { return preparing_; }
  double steps() const { return steps_; }
  double evaluations() const { return evaluations_; }
  double saving() const { return saving_; }
  /// All zero before the first step.
  StepDurations step_times() const;

 private:
  const Clock::time_point start_ = Clock::now();
  double preparing_ = 0, steps_ = 0, evaluations_ = 0, saving_ = 0;  // seconds
  std::vector<float> step_ms_;                                       // 4 bytes a step
};

}  // namespace tessera::host
