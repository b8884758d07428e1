// How rank 0 shows the steps: lines in the log, and on a terminal one line that is redrawn after each step.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "job/job.h"
#include "train/loss_scaler.h"

namespace tessera::host {

/// Steps between two lines of the log: --log-every, or by default 1, 2 or 5 times a power of ten so that `num_steps`
/// have at most a hundred.
int64_t steps_between_lines(int64_t log_every, int64_t num_steps);

/// A moving average in which each value counts 0.95 times as much as the next one. Values that are not finite are
/// skipped.
class Smoothed {
 public:
  void add(double value);
  /// Nothing before the first value.
  std::optional<double> mean() const;

 private:
  double sum_ = 0, weight_ = 0;
};

/// What the line on the terminal shows.
struct LiveStep {
  int64_t step = 0, num_steps = 0;
  std::optional<double> loss, smoothed_loss, evaluation_loss;
  double grad_norm = 0, lr = 0;
  double items_per_second = 0;
  std::string_view items = "tok";
  double seconds_left = 0;
};

/// "120/1500 ━━━━────  loss 2.413 (2.40)  norm 0.91  lr 2.9e-3  25.4k tok/s  1:12 left", in at most `num_columns`: if
/// that is too narrow, it drops the evaluation loss, then the rate, the norm, and last the bar.
std::string live_line(const LiveStep& live, int num_columns);

/// A run's steps. Line and status of rank 0; on other ranks `log` is off. [control-thread]
class StepReport {
 public:
  /// Borrows its arguments. `first_step`: the steps that were done before.
  StepReport(const Log& log, const Job& job, int64_t first_step);
  ~StepReport() { end(); }
  StepReport(const StepReport&) = delete;

  /// Times and rates in a line are means over the steps since the previous line. Warns when the step was skipped.
  void after_step(const StepMetrics& step, const LossScaler& scaler);
  void after_evaluation(const EvalMetrics& result);
  /// Of the run that this one resumes.
  void set_best(const EvalMetrics& earlier) { best_ = earlier; }
  /// Logs the last step if it has no line yet, and removes the live line; if a step throws, the destructor does so.
  void end();

  std::optional<double> smoothed_loss() const { return loss_.mean(); }
  const std::optional<EvalMetrics>& best_evaluation() const { return best_; }

 private:
  using Clock = std::chrono::steady_clock;

  void log_step();
  void draw();

  const Log& log_;
  const Job& job_;
  const int64_t first_step_;
  const bool shows_live_line_;
  const int64_t every_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  StepMetrics last_{};  // step is 0 before the first
  Smoothed loss_, step_ms_;
  int64_t num_unlogged_ = 0;  // steps since the last line
  double unlogged_ms_ = 0;    // their time
  std::optional<double> evaluation_loss_;
  std::optional<EvalMetrics> best_;
};

}  // namespace tessera::host
