// A thread reports the progress of long work. The work does not report itself because a phase need not have a loop in
// which to check the clock. The work never waits for the reporter, so a line may combine a count and a total of
// different moments.

#include "base/progress.h"

#include <system_error>

#include "base/concat.h"

namespace tessera::host {

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
  for (auto next = start_ + interval_; !stop_.wait_until(lock, next, [&] { return stopped_; }); next += interval_)
    log_.info(line());
}

std::string Progress::line() const {
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
  std::string text = what_ + ": ";
  if (total_ > 1) text += concat(done_.load(), " of ", total_.load(), ", ");
  if (const char* phase = phase_) text += concat(phase, ", ");
  return concat(text, passed.count(), " s so far");
}

}  // namespace tessera::host
