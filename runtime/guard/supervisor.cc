// What a plugin does to its process by instructions of its own, nothing inside the process can see: the system call
// that ends it with 0, SIGKILL, SIGSTOP, a crash after it has taken the handler away. The ranks of our launcher have a
// parent that sees it; this is the parent of a run whose ranks are threads, of a single rank, of the launcher itself,
// which plans with the plugins first, and of a rank that a foreign launcher has started, which would take exit code 0
// for a success.
//
//     shell -> supervisor -> the run (threads, or the launcher -> rank, rank, ...)
//     torchrun -> supervisor -> rank

#include "guard/supervisor.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/concat.h"
#include "base/ending.h"
#include "base/log.h"
#include "launch/launched_ranks.h"
#include "launch/process_setup.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

pid_t starter = 0;  // of a supervisor
constexpr timespec kTick = {0, 50'000'000};

/// The child while it is stopped, which a time limit counts by ticks: none pass while this process is stopped too.
class Stops {
 public:
  Stops(pid_t child, int64_t limit_ms) : child_(child), limit_ms_(limit_ms) {}

  void begin() {
    if (!is_stopped(child_)) return;  // by now it goes on, as after Ctrl-Z and fg
    if (is_running_) print_warning();
    is_running_ = false;
  }
  bool is_stopped_now() const { return !is_running_; }
  void tick() {
    if (is_running_) return;
    if (!is_stopped(child_)) {
      is_running_ = true, stopped_ms_ = 0;
      return;
    }
    stopped_ms_ += kTick.tv_nsec / 1'000'000;
    if (stopped_ms_ < limit_ms_) return;
    print_error(concat("the run (process ", child_, ") was stopped for ", limit_ms_ / 1000.0,
                       " s, by a plugin or by hand, so it is killed; to hold a run for longer, stop process ",
                       ::getpid(), " too"));
    ending->is_told = true;
    ::kill(child_, SIGKILL);
    is_running_ = true;
  }

 private:
  void print_warning() const {
    Log(LogLevel::warning).warning("the run (process ", child_, ") is stopped; resume it with kill -CONT ", child_);
  }

  const pid_t child_;
  const int64_t limit_ms_;
  bool is_running_ = true;
  int64_t stopped_ms_ = 0;
};

/// How the child ended, and whether the signal that it died of was passed on.
struct ChildEnd {
  int status = 0;
  bool was_asked = false;
};

/// The run asks itself to stop: passed on, a plugin's signal would end it like a user's, with exit code 0.
ChildEnd end_by_own_signal(pid_t child, int signal, pid_t sender) {
  print_error(concat("process ", sender, " of the run has sent SIG", ::sigabbrev_np(signal), " to process ", ::getpid(),
                     ", which watches the run; only a plugin can have done that, so the run ends"));
  ending->is_told = true;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return {W_EXITCODE(1, 0), false};
}

/// Passes signals on until the child has ended.
ChildEnd wait_for(pid_t child, const sigset_t& signals, int64_t stopped_ms) {
  Stops stops(child, stopped_ms);
  sigset_t asked;
  sigemptyset(&asked);
  for (;;) {
    int status = 0;
    const pid_t changed = ::waitpid(child, &status, WNOHANG | WUNTRACED);
    if (changed == child && !WIFSTOPPED(status)) {
      sigset_t pending;  // a terminal's signal has ended the child before it came here
      sigpending(&pending);
      const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : SIGCHLD;
      return {status, sigismember(&asked, signal) == 1 || sigismember(&pending, signal) == 1};
    }
    if (changed == child) stops.begin();
    siginfo_t info{};
    const int signal = ::sigtimedwait(&signals, &info, stops.is_stopped_now() ? &kTick : nullptr);
    if (signal > 0 && signal != SIGCHLD) {
      if (is_below(sender_of(info), child)) return end_by_own_signal(child, signal, sender_of(info));
      sigaddset(&asked, signal);
      ::kill(child, signal);
    }
    stops.tick();
  }
}

int exit_code_for(const ChildEnd& end) {
  const int status = end.status;
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == 0 ? ending->has_finished : ending->is_told) return code;
    print_error(concat("a plugin has ended the process of the run with exit code ", code,
                       " before the run was done, or has closed its standard error"));
    return code == 0 ? 1 : code;
  }
  const int signal = WTERMSIG(status);
  const bool needs_no_words = end.was_asked || signal == SIGPIPE || signal == SIGQUIT;
  const char* const name = ::sigabbrev_np(signal);  // real-time signals have none
  if (!needs_no_words && !ending->is_told)
    print_error(concat("the process of the run was killed by signal ", signal, name ? concat(" (SIG", name, ")") : "",
                       ": by a plugin, by hand, or by the system for want of memory"));
  const rlimit no_second_core{};
  ::setrlimit(RLIMIT_CORE, &no_second_core);
  end_by_signal(signal, false);
}

}  // namespace

bool is_supervised() {
  return ending != &ending_here;
}

int starter_of_program() {
  return starter != 0 ? starter : ::getppid();
}

std::optional<int> supervise(int64_t stopped_ms) {
  // As long as the process; static, for else nothing holds it in the process of the run, and that is a leak.
  static const SharedEndings* shared = nullptr;
  try {
    shared = new SharedEndings(1);
  } catch (const Error&) {  // no memory that can be shared: the run goes on by itself
    return {};
  }
  ::signal(SIGCHLD, SIG_DFL);  // ignored by some who start programs, and then nothing could be waited for
  const sigset_t signals = signals_of_parent();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  starter = ::getppid();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child >= 0) ending = &(*shared)[0];
  if (child > 0) return exit_code_for(wait_for(child, signals, stopped_ms));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) return {};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  return {};
}

}  // namespace tessera::host
