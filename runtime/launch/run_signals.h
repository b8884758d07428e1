// What signals ask of a run: to stop after a step, to save.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace tessera::host {

/// A signal may reach a process twice, sent to its group and passed on by its launcher, or by `timeout`, which sends it
/// both ways. Those that come within this time of the first are one request.
inline constexpr std::chrono::milliseconds kOneRequest(500);

/// What this process has been asked to do so far.
struct SignalRequests {
  int stop_signal = 0;    ///< SIGTERM or SIGINT: to stop after a step; 0: nothing asked
  int64_t num_saves = 0;  ///< SIGUSR1: how often to save
};

/// Receives SIGTERM, SIGINT and SIGUSR1 on a thread of its own, so that no system call of any other thread is
/// interrupted. As long as nothing is trained, SIGTERM and SIGINT end the process; from begin_training() on they are
/// requests, and the second one ends it. SIGUSR1 is always a request. Signals that are ignored stay ignored. One that a
/// process of the run has sent is a plugin's, and ends the run.
class RunSignals {
 public:
  using EndRun = std::function<void(const std::string& sentence)>;

  /// Blocks the signals in this thread and those that it starts from now on: make it before there are others. With
  /// `speaks` it says on standard error what a signal leads to; without, our launcher does. `end_run` ends the process
  /// with a sentence, for a signal that the run has sent itself. Throws RESOURCE_EXHAUSTED. [control-thread]
  RunSignals(bool speaks, EndRun end_run);
  /// Restores the thread's mask; the signals then do what they did before. [control-thread]
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// [any-thread]
  void begin_training() { is_training_ = true; }
  SignalRequests requests() const { return {stop_signal_, num_saves_}; }

 private:
  void receive();
  void take(int signal);

  const bool speaks_;
  const EndRun end_run_;
  sigset_t wanted_, before_;
  std::atomic<bool> is_training_{false}, is_over_{false};
  std::atomic<int> stop_signal_{0};
  std::atomic<int64_t> num_saves_{0};
  std::chrono::steady_clock::time_point asked_;  // of the first request to stop; the thread's own
  pthread_t thread_{};
};

}  // namespace tessera::host
