// A request is a word that the trainer reads before each step (exec/run_words.cc says how all ranks come to know it):
//
//     SIGTERM        ended: nothing is     stop_signal = SIGTERM           ended at once,
//                    trained yet           the step goes on to its end     whatever it does
//     -------------- loading ------------- first ------------------------- second, 500 ms after it or more
//
// A handler would interrupt system calls of whatever thread it runs on, those of plugins and their libraries too, and
// not all of them try again. Here the signals are blocked in every thread, and one waits for them.

#include "launch/run_signals.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "base/ending.h"
#include "base/small_thread.h"
#include "launch/launched_ranks.h"
#include "launch/process_setup.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::array kRunSignals = {SIGTERM, SIGINT, SIGUSR1};
// Sent to the thread alone, at the end. Not one of those that queue: they need a place, of which ulimit -i may leave
// none.
constexpr int kWake = SIGURG;

/// Whether a process of the run has sent it: one below this process, or, where the parent is our launcher or
/// supervisor, another one below that.
bool is_of_run(pid_t sender) {
  const bool has_our_parent = ending != &ending_here;
  return is_below(sender, ::getpid()) || (has_our_parent && sender != ::getppid() && is_below(sender, ::getppid()));
}

}  // namespace

// The wake-up is blocked before the thread starts, since it would end the process if it came first.
RunSignals::RunSignals(bool speaks, EndRun end_run) : speaks_(speaks), end_run_(std::move(end_run)) {
  sigemptyset(&wanted_);
  sigaddset(&wanted_, kWake);
  for (const int signal : kRunSignals)
    if (!is_ignored(signal)) sigaddset(&wanted_, signal);
  pthread_sigmask(SIG_BLOCK, &wanted_, &before_);
  if (const int error = start_small_thread(thread_, [this] { receive(); })) {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw Error(TSR_E_RESOURCE_EXHAUSTED, concat("cannot start a thread that receives signals: ", std::strerror(error),
                                                 "; raise ulimit -u or ulimit -v, or use a machine with more memory"));
  }
}

RunSignals::~RunSignals() {
  is_over_ = true;
  pthread_kill(thread_, kWake);
  pthread_join(thread_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void RunSignals::receive() {
  siginfo_t info{};
  while (!is_over_) {
    const int signal = sigwaitinfo(&wanted_, &info);
    if (signal <= 0 || signal == kWake) continue;
    const pid_t sender = sender_of(info);
    if (info.si_code == SI_TIMER || sender == ::getpid())
      end_run_(concat("this process has sent SIG", ::sigabbrev_np(signal), " to itself (raise, kill or a timer), ",
                      "which only a plugin can have done, so the run ends"));
    else if (is_of_run(sender))
      end_run_(concat("process ", sender, " of this run has sent SIG", ::sigabbrev_np(signal), " to process ",
                      ::getpid(), ", which only a plugin can have done, so the run ends"));
    else
      take(signal);
  }
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
