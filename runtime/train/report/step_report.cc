#include "train/report/step_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/concat.h"
#include "base/output_file.h"
#include "base/terminal.h"

namespace tessera::host {
namespace {

constexpr int64_t kMaxLines = 100;
constexpr double kKept = 0.95;  // fraction of the weight that older values keep per step
constexpr std::chrono::milliseconds kRedraw{100};
constexpr int kMinBar = 4, kMaxBar = 40;
constexpr int kDroppedForBar = 3, kDropped = 6;

std::string three_digits(double value) {
  return format(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value);
}

/// "25.4k", "1.20M", "312"
std::string short_number(double value) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, letter] : kUnits)
    if (value >= 0.9995 * unit) return three_digits(value / unit) + letter;
  return three_digits(value);
}

/// "2.9e-3": without the exponent's leading zero.
std::string short_rate(double value) {
  std::string text = format("%.1e", value);
  if (const size_t zero = text.find("-0"); zero != text.npos) text.erase(zero + 1, 1);
  return text;
}

/// "0:12", "1:02:33"
std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  const long long hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? format("%lld:%02lld:%02lld", hours, minutes, whole % 60)
                   : format("%lld:%02lld", minutes, whole % 60);
}

struct Field {
  std::string text;
  int dropped;  // in this order: up to kDroppedForBar to make room for a bar, the others where they do not fit
};

std::vector<Field> fields_of(const LiveStep& live) {
  const std::string smoothed = live.smoothed_loss ? format("%.3f", *live.smoothed_loss) : "";
  return {{live.loss ? concat("loss ", smoothed, smoothed.empty() ? "" : " ", format("(%.2f)", *live.loss)) : "", 6},
          {live.loss ? format("norm %.2f", live.grad_norm) : "", 3},
          {live.loss ? "lr " + short_rate(live.lr) : "", 2},
          {live.items_per_second > 0 ? concat(short_number(live.items_per_second), " ", live.items, "/s") : "", 4},
          {live.seconds_left > 0 ? clock_text(live.seconds_left) + " left" : "", 5},
          {live.evaluation_loss ? format("eval %.3f", *live.evaluation_loss) : "", 1}};
}

int width_of(const std::vector<Field>& fields) {
  int width = 0;
  for (const Field& field : fields)
    if (!field.text.empty()) width += 2 + num_columns_of(field.text);
  return width;
}

}  // namespace

int64_t steps_between_lines(int64_t log_every, int64_t num_steps) {
  if (log_every > 0) return log_every;
  for (int64_t power = 1;; power *= 10)
    for (const int64_t every : {power, 2 * power, 5 * power})
      if ((num_steps - 1) / every < kMaxLines) return every;
}

void Smoothed::add(double value) {
  if (!std::isfinite(value)) return;
  sum_ = kKept * sum_ + value;
  weight_ = kKept * weight_ + 1;
}

std::optional<double> Smoothed::mean() const {
  return weight_ > 0 ? std::optional(sum_ / weight_) : std::nullopt;
}

std::string live_line(const LiveStep& live, int num_columns) {
  const std::string count = concat(live.step, "/", live.num_steps);
  std::vector<Field> fields = fields_of(live);
  const auto room = [&] { return num_columns - num_columns_of(count) - 1 - width_of(fields); };
  for (int next = 1; next <= kDropped && room() < (next <= kDroppedForBar ? kMinBar : -1); ++next)
    for (Field& field : fields)
      if (field.dropped == next) field.text.clear();
  std::string text = count;
  const double done = static_cast<double>(live.step) / static_cast<double>(std::max<int64_t>(1, live.num_steps));
  if (room() >= kMinBar) text += " " + progress_bar(done, std::min(room(), kMaxBar), standard_error());
  for (const Field& field : fields)
    if (!field.text.empty()) text += "  " + field.text;
  return first_columns(text, num_columns);
}

StepReport::StepReport(const Log& log, const Job& job, int64_t first_step)
    : log_(log),
      job_(job),
      first_step_(first_step),
      // Lines on standard output would be mixed with it.
      shows_live_line_(log.has_status() && !(is_standard_output(job.config.metrics) && ::isatty(STDOUT_FILENO) == 1)),
      every_(steps_between_lines(job.config.log_every, std::max<int64_t>(1, job.config.steps - first_step))) {
  draw();
}

void StepReport::end() {
  if (num_unlogged_ > 0) log_step();
  if (shows_live_line_) log_.set_status("");
}

void StepReport::after_step(const StepMetrics& step, const LossScaler& scaler) {
  last_ = step;
  loss_.add(step.loss);
  step_ms_.add(step.step_ms);
  ++num_unlogged_;
  unlogged_ms_ += step.step_ms;
  if (step.step == first_step_ + 1 || step.step % every_ == 0 || step.step == job_.config.steps) log_step();
  if (!step.updated)
    log_.warning("step ", step.step, " was skipped: a gradient is not finite",
                 scaler.is_dynamic() ? format("; the loss scale is now %g", scaler.scale()) : "");
  draw();
}

void StepReport::after_evaluation(const EvalMetrics& result) {
  evaluation_loss_ = result.loss;
  if (!best_ || result.loss < best_->loss) best_ = result;
}

void StepReport::log_step() {
  const double ms = unlogged_ms_ / static_cast<double>(num_unlogged_);
  log_.info(format("step %4lld/%lld | loss %8.5f | ", static_cast<long long>(last_.step),
                   static_cast<long long>(job_.config.steps), last_.loss),
            last_.accuracy ? format("accuracy %6.2f %% | ", 100 * *last_.accuracy) : "",
            format("norm %7.4f | lr %.2e | %8.1f ms | %.0f %s/s", last_.grad_norm, last_.lr, ms,
                   static_cast<double>(job_.tokens_per_step()) / ms * 1e3, last_.accuracy ? "examples" : "tok"));
  num_unlogged_ = 0;
  unlogged_ms_ = 0;
  drawn_ = {};  // a line has moved the screen: redraw the live line
}

void StepReport::draw() {
  const auto now = Clock::now();
  if (!shows_live_line_ || now - drawn_ < kRedraw) return;
  drawn_ = now;
  LiveStep live;
  live.step = last_.step > 0 ? last_.step : first_step_;
  live.num_steps = job_.config.steps;
  if (last_.step > 0) {
    live.loss = last_.loss;
    live.smoothed_loss = loss_.mean();
    live.grad_norm = last_.grad_norm;
    live.lr = last_.lr;
    live.items_per_second = static_cast<double>(job_.tokens_per_step()) / step_ms_.mean().value_or(1) * 1e3;
    // Includes the time between the steps.
    live.seconds_left = std::chrono::duration<double>(now - start_).count() /
                        static_cast<double>(last_.step - first_step_) * static_cast<double>(live.num_steps - live.step);
  }
  if (last_.accuracy) live.items = "examples";
  live.evaluation_loss = evaluation_loss_;
  log_.set_status(live_line(live, terminal_columns() - 1));
}

}  // namespace tessera::host
