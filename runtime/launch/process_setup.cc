// Signals that end a process are announced in one line, so that the log of a job shows what ended it. Handlers use only
// calls that are async-signal-safe: no allocation, no streams, one writev for the whole line.

#include "launch/process_setup.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/concat.h"
#include "base/ending.h"
#include "base/terminal.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

iovec part(std::string_view text) {
  return {const_cast<char*>(text.data()), text.size()};
}

// Only async-signal-safe calls.
extern "C" void announce(int signal) {
  end_by_signal(signal, true);
}

void act(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t signals_of_parent() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int signal : kEndingSignals)
    if (!is_ignored(signal)) sigaddset(&signals, signal);
  return signals;
}

void hold_save_requests() {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

void ignore_save_requests() {
  ::signal(SIGUSR1, SIG_IGN);
}

void announce_ending_signals() {
  for (const int signal : kEndingSignals)
    if (!is_ignored(signal)) act(signal, announce);
  standard_error();  // looked at now, since a signal's handler may not
}

void say_signal(std::string_view before, int signal, std::string_view after) {
  const char* name = ::sigabbrev_np(signal);
  const iovec parts[] = {part(clear_line()),      part("tessera: "), part(before), part("SIG"),
                         part(name ? name : "?"), part(after),       part("\n")};
  // A process that is to end does not wait for a reader that pauses.
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 1 && ::writev(STDERR_FILENO, parts, std::size(parts)) < 0) return;
}

void end_by_signal(int signal, bool says) {
  if (says) say_signal("ended by signal ", signal, "");
  ending->is_told = true;
  host_ends_process = true;  // a handler may run in a plugin's call
  act(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  // It is blocked here, by its handler or by the mask: it stays pending until it is unblocked. Process 1 of a container
  // survives that, and exits below.
  ::raise(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::_exit(128 + signal);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, the old limit holds
}

void require_descriptors() {
  constexpr rlim_t kNeeded = 10;  // then what lacks one says so
  rlimit limit{};
  const auto suffices = [&] { return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kNeeded; };
  if (suffices()) return;
  raise_descriptor_limit();
  if (suffices()) return;
  throw Error(TSR_E_RESOURCE_EXHAUSTED,
              concat("this process may have ", counted(limit.rlim_cur, "file"), " open and needs at least ", kNeeded,
                     "; raise the limit with ulimit -n"));
}

void require_stack() {
  constexpr rlim_t kNeeded = 128 << 10;  // threads have as much, and from 100 KiB on runs were seen to end well
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kNeeded) return;
  throw Error(TSR_E_RESOURCE_EXHAUSTED,
              concat("this process may have ", limit.rlim_cur >> 10, " KiB of stack and needs at least ", kNeeded >> 10,
                     "; raise the limit with ulimit -s"));
}

}  // namespace tessera::host
