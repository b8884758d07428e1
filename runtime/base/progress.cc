// A thread reports the progress of long work. The work does not report itself because a phase need not have a loop in
// which to check the clock. The work never waits for the reporter, so a line may combine a count and a total of
// different moments.
//
// On a terminal the status line is redrawn ten times a second. Else a line is logged after 2 s, the next ones after 4,
// 8, 16, 32 and then every 60 s more: an hour of planning has some sixty lines, and a second of it none.

#include "base/progress.h"

#include <algorithm>
#include <system_error>

#include "base/concat.h"
#include "base/terminal.h"

namespace tessera::host {
namespace {

constexpr std::chrono::milliseconds kLongestInterval = std::chrono::minutes(1);
/// Work shorter than this would only flicker.
constexpr std::chrono::milliseconds kFirstDrawing{200}, kNextDrawing{100};
constexpr int kMinBar = 4, kMaxBar = 20;

}  // namespace

std::string line_with_bar(double fraction, const std::string& text, int num_columns) {
  const int room = num_columns - num_columns_of(text) - 1;
  if (room < kMinBar) return text;
  return concat(progress_bar(fraction, std::min(room, kMaxBar), standard_error()), " ", text);
}

Progress::Progress(const Log& log, std::string what, std::chrono::milliseconds interval)
    : log_(log), what_(std::move(what)), interval_(interval) {
  if (!log.enabled(LogLevel::info)) return;
  try {
    reporter_ = std::thread([this] { report_until_stopped(); });
  } catch (const std::system_error&) {  // progress is then not reported
  }
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_one();
  if (reporter_.joinable()) reporter_.join();
}

void Progress::at(uint64_t done, uint64_t total) noexcept {
  done_ = done;
  total_ = total;
}

void Progress::phase(const char* name) noexcept {
  phase_ = name;
}

void Progress::report_until_stopped() {
  std::unique_lock lock(mutex_);
  if (log_.has_status())
    draw_until_stopped(lock);
  else
    log_until_stopped(lock);
}

void Progress::log_until_stopped(std::unique_lock<std::mutex>& lock) {
  auto interval = interval_;
  for (auto next = start_ + interval; !stop_.wait_until(lock, next, [&] { return stopped_; }); next += interval) {
    log_.info(line());
    interval = std::max(interval_, std::min(interval * 2, kLongestInterval));
  }
}

void Progress::draw_until_stopped(std::unique_lock<std::mutex>& lock) {
  bool is_drawn = false;
  for (auto next = start_ + kFirstDrawing; !stop_.wait_until(lock, next, [&] { return stopped_; });
       next += kNextDrawing) {
    const uint64_t done = done_, total = total_;
    const double fraction = static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(1, total));
    log_.set_status(total > 1 ? line_with_bar(fraction, line(), terminal_columns() - 1) : line());
    is_drawn = true;
  }
  if (is_drawn) log_.set_status("");
}

std::string Progress::line() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  std::string text = what_ + ": ";
  if (total_ > 1) text += concat(done_.load(), " of ", total_.load(), ", ");
  if (const char* phase = phase_) text += concat(phase, ", ");
  return concat(text, duration_text(passed.count()), " so far");
}

}  // namespace tessera::host
