// Progress of long work: lines in the log or, on a terminal, one line that is redrawn.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/log.h"

namespace tessera::host {

/// `text` after a bar, which is as long as `num_columns` leave room for, and left out where that is little.
std::string line_with_bar(double fraction, const std::string& text, int num_columns);

/// Logs what is being done and how far it is: "planning 64 ranks: 12 of 64, placing buffers, 4.0 s so far"; first after
/// `interval`, then less and less often, down to once a minute. Shorter work logs nothing. On a terminal it is the
/// status line instead (Log::set_status), from a fifth of a second on, with a bar. Lines have level info. A thread
/// writes them: it is not started where the log leaves info out, and nothing is written if the system refuses a thread.
/// The destructor joins it, so the process may fork afterwards.
///
///     Progress progress(log, "planning 64 ranks");
///     for (int rank = 0; rank < 64; ++rank) { progress.at(rank, 64); ... progress.phase("placing buffers"); ... }
class Progress {
 public:
  Progress(const Log& log, std::string what, std::chrono::milliseconds interval = std::chrono::seconds(2));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` parts are done. Not printed when there is only one part. [any-thread]
  void at(uint64_t done, uint64_t total) noexcept;
  /// What is being done to the current part; a literal, since the pointer is kept. [any-thread]
  void phase(const char* name) noexcept;

 private:
  void report_until_stopped();
  void log_until_stopped(std::unique_lock<std::mutex>& lock);
  void draw_until_stopped(std::unique_lock<std::mutex>& lock);
  std::string line() const;

  const Log log_;
  const std::string what_;
  const std::chrono::milliseconds interval_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<uint64_t> done_{0}, total_{1};
  std::atomic<const char*> phase_{nullptr};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;  // under mutex_
  std::thread reporter_;
};

}  // namespace tessera::host
