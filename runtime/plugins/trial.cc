// The child reports each step over a pipe, one byte at its begin; its end of the pipe closes when it ends. So a pipe
// that is closed without the last byte tells that it ended early, and where.
//
//     parent                         child
//     fork ------------------------> load: step 1 ... step 2 ... done
//     read until end or 10 s <------ "1" "2" "!"
//     kill, wait
//
// The process has threads by then (the watch, that of signals), which the child has not. None of them holds a lock that
// the child needs: each runs before anything is forked (base/small_thread.h), and glibc takes those of malloc and of
// the loader around fork.

#include "plugins/trial.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "base/concat.h"
#include "config/usage_error.h"
#include "guard/crash_report.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"
#include "guard/process_copy.h"
#include "guard/process_state.h"
#include "guard/readable.h"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kDone = '!';
constexpr char kRefused = '=';  // before the end of a sentence
constexpr int kCopyMs = 1'000;
constexpr int kCutOff = 113;  // the exit code of a child that can no longer write to its pipe

[[noreturn]] void run_child(int out, pid_t parent, const std::function<void(const TrialStep&)>& load) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  // Handlers of the parent would speak, or end what they do not know.
  forget_handler();
  for (const int signal : kCrashSignals)
    ::signal(signal, SIG_DFL);
  ::prctl(PR_SET_DUMPABLE, 0);  // no core of a trial
  const int nowhere = ::open("/dev/null", O_RDWR);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(nowhere, file);
  const auto report = [&](const char* step) {
    if (::write(out, step, ::strlen(step) + 1) < 0) ::_exit(kCutOff);
  };
  mark_process();
  try {
    load(report);
  } catch (...) {  // this process will learn of it by itself
  }
  if (const KnownFunction* known = find_function(returned_copy(kCopyMs))) {
    report(concat(kRefused, "in ", known->place, kForked).c_str());
    ::_exit(1);
  }
  const char done[] = {kDone, 0};
  if (::write(out, done, sizeof done) < 0) ::_exit(kCutOff);
  ::_exit(0);
}

/// What the child wrote until it ended or the time was over; false in `in_time` then.
std::string read_steps(int in, bool& in_time) {
  std::string text;
  const auto deadline = Clock::now() + std::chrono::milliseconds(kTrialMs);
  for (char bytes[256];;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poll{in, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&poll, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    in_time = ready > 0;
    const ssize_t got = in_time ? ::read(in, bytes, sizeof bytes) : 0;
    if (got <= 0) return text;
    text.append(bytes, static_cast<size_t>(got));
    if (text.ends_with(std::string{kDone, 0})) return text;
  }
}

/// The last step of "one\0two\0".
std::string last_step(const std::string& text) {
  if (text.empty()) return "its first instruction";
  const size_t begin = text.rfind('\0', text.size() - 2);
  return text.substr(begin == text.npos ? 0 : begin + 1, text.size() - 1 - (begin == text.npos ? 0 : begin + 1));
}

}  // namespace

void try_in_child(const std::function<void(const TrialStep&)>& load) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;            // without a trial, then
  if (!this_thread_calls.is_known) know_this_thread();  // takes a lock, which a child may never get
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_child(ends[1], parent, load);
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    return;
  }
  bool in_time = true;
  const std::string text = read_steps(ends[0], in_time);
  ::close(ends[0]);
  const bool is_done = text.ends_with(std::string{kDone, 0});
  if (!in_time || is_done) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (is_done) return;
  const std::string step = last_step(text);
  if (step[0] == kRefused) throw UsageError(step.substr(1));
  if (!in_time) throw UsageError(concat("has not returned from ", step, " within ", kTrialMs / 1000, " s"));
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    throw UsageError(concat("crashed in ", step, " (SIG", name ? name : "?", ")"));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCutOff) throw UsageError(concat("in ", step, " ", kClosesFiles));
  throw UsageError(concat("ended the process in ", step, "; a plugin returns, and never calls exit"));
}

}  // namespace tessera::host
