// A request is a word that the trainer reads before each step (exec/run_words.cc says how all ranks come to know it):
//
//     SIGTERM        ended: nothing is     stop_signal = SIGTERM           ended at once,
//                    trained yet           the step goes on to its end     whatever it does
//     -------------- loading ------------- first ------------------------- second, 500 ms after it or more
//
// A handler would interrupt system calls of whatever thread it runs on, those of plugins and their libraries too, and
// not all of them try again. Here the signals are blocked in every thread, and one waits for them.

#include "launch/run_signals.h"

#include <array>

#include "launch/process_setup.h"

namespace tessera::host {
namespace {

constexpr std::array kRunSignals = {SIGTERM, SIGINT, SIGUSR1};
const int kWake = SIGRTMIN;  // sent to the thread, at the end

}  // namespace

RunSignals::RunSignals(bool speaks) : speaks_(speaks) {
  sigemptyset(&wanted_);
  for (const int signal : kRunSignals)
    if (!is_ignored(signal)) sigaddset(&wanted_, signal);
  pthread_sigmask(SIG_BLOCK, &wanted_, &before_);
  thread_ = std::thread([this] { receive(); });
}

RunSignals::~RunSignals() {
  is_over_ = true;
  pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void RunSignals::receive() {
  sigset_t waited = wanted_, wake;
  sigemptyset(&wake);
  sigaddset(&wake, kWake);
  sigaddset(&waited, kWake);
  pthread_sigmask(SIG_BLOCK, &wake, nullptr);
  while (!is_over_)
    if (const int signal = sigwaitinfo(&waited, nullptr); signal > 0 && signal != kWake) take(signal);
}

void RunSignals::take(int signal) {
  if (signal == SIGUSR1) return void(++num_saves_);
  const auto now = std::chrono::steady_clock::now();
  if (stop_signal_ && now - asked_ < kOneRequest) return;
  if (stop_signal_ || !is_training_) end_by_signal(signal, speaks_);
  asked_ = now;
  stop_signal_ = signal;
  if (speaks_) say_signal("", signal, ": the run stops after a step; another one ends it at once");
}

}  // namespace tessera::host
