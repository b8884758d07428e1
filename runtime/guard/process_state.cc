// Each part of the state has one function that compares it, restores it, and describes the change:
//
//     restore_signals()    ->    "changes what SIGTERM does; a plugin installs no handlers of signals"
//
// Most of these ask the system, 20 us in all. So this is for loading, creating and passes, not for the calls of a step;
// after those only the floating-point unit is compared (decision 0043).

#include "guard/process_state.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cstdlib>
#include <cstring>

#include "base/concat.h"
#include "guard/floating_point.h"
#include "guard/known_functions.h"
#include "guard/process_copy.h"

namespace tessera::host {
namespace {

/// Copies of the standard files must not be what a run lacks when few may be open.
bool has_room_for_copies() {
  constexpr rlim_t kFew = 64;
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= kFew;
}

bool is_same(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_handler == b.sa_handler && (a.sa_flags & SA_SIGINFO) == (b.sa_flags & SA_SIGINFO);
}

void add_signal(std::string& names, int signal) {
  const char* name = ::sigabbrev_np(signal);
  names += concat(names.empty() ? "" : ", ", "SIG", name ? name : std::to_string(signal));
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_rdev == b.st_rdev &&
         (a.st_mode & S_IFMT) == (b.st_mode & S_IFMT);
}

/// What umask(2) sets. It has no question without an answer, so the answer is read.
std::optional<mode_t> creation_mask() {
  constexpr std::string_view kName = "\nUmask:\t";  // in the second line
  std::array<char, 256> text;
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  const std::string_view status(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  const size_t at = status.find(kName);
  if (at == status.npos) return std::nullopt;
  mode_t mask = 0;
  std::from_chars(text.data() + at + kName.size(), text.data() + status.size(), mask, 8);
  return mask;
}

const PathState& paths_of_program() {
  static const PathState paths;
  return paths;
}

}  // namespace

PathState::PathState() : creation_mask_(creation_mask()) {
  if (char* const path = ::getcwd(nullptr, 0); path) {
    if (::stat(path, &folder_status_) == 0) folder_ = path;
    std::free(path);
  }
}

void note_paths_of_program() {
  paths_of_program();
}

void require_paths_of_program() {
  if (const std::string change = paths_of_program().restore(); !change.empty())
    throw Error(TSR_E_FAILED_PRECONDITION, concat("in a step, or on a thread of its own, a plugin ", change));
}

ProcessState::ProcessState()
    : process_(::getpid()), computing_(computing_now()), c_locale_(std::setlocale(LC_ALL, nullptr)) {
  know_this_thread();  // it has its stack for handlers from then on
  for (int signal = 1; signal < NSIG; ++signal)
    ::sigaction(signal, nullptr, &signals_[signal]);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
  ::sigaltstack(nullptr, &handler_stack_);
  for (size_t i = 0; i < kTimers.size(); ++i)
    ::getitimer(kTimers[i], &timers_[i]);
  for (size_t i = 0; i < limits_.size(); ++i)
    ::getrlimit(static_cast<__rlimit_resource_t>(i), &limits_[i]);
  for (int file = 0; file < kNumFiles; ++file) {
    ::fstat(file, &file_status_[file]);
    files_[file] = has_room_for_copies() ? ::fcntl(file, F_DUPFD_CLOEXEC, kNumFiles) : -1;
  }
}

ProcessState::~ProcessState() {
  for (const int file : files_)
    if (file >= 0) ::close(file);
}

std::string ProcessState::restore() {
  if (::getpid() != process_) end_copy();  // a child of vfork has the host's memory, and with it the host's mark
  std::string changes;
  for (const auto part :
       {&ProcessState::restore_computing, &ProcessState::restore_signals, &ProcessState::restore_mask,
        &ProcessState::restore_handler_stack, &ProcessState::restore_timers, &ProcessState::restore_limits,
        &ProcessState::restore_locale, &ProcessState::restore_paths, &ProcessState::restore_files}) {
    const std::string change = (this->*part)();
    if (!change.empty()) changes += concat(changes.empty() ? "" : ", and ", change);
  }
  return changes;
}

std::string ProcessState::restore_computing() {
  if (computing_now() == computing_) return "";
  compute_as(computing_);
  return kChangesComputing;
}

std::string ProcessState::restore_signals() {
  std::string names;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || is_same(now, signals_[signal])) continue;
    ::sigaction(signal, &signals_[signal], nullptr);
    add_signal(names, signal);
  }
  return names.empty() ? "" : concat("changes what ", names, " does; a plugin installs no handlers of signals");
}

std::string ProcessState::restore_mask() {
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  std::string names;
  for (int signal = 1; signal < NSIG; ++signal)
    if (::sigismember(&now, signal) != ::sigismember(&mask_, signal)) add_signal(names, signal);
  if (names.empty()) return "";
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  return concat("changes whether the calling thread blocks ", names, "; only threads of its own are a plugin's to set");
}

std::string ProcessState::restore_handler_stack() {
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0 || now.ss_sp == handler_stack_.ss_sp) return "";
  ::sigaltstack(&handler_stack_, nullptr);
  return "changes the stack of the calling thread's signal handlers (sigaltstack), without which a crash is not "
         "reported";
}

std::string ProcessState::restore_timers() {
  bool has_set = false;
  for (size_t i = 0; i < kTimers.size(); ++i) {
    itimerval now{};
    ::getitimer(kTimers[i], &now);
    if (timerisset(&now.it_value) == timerisset(&timers_[i].it_value)) continue;
    ::setitimer(kTimers[i], &timers_[i], nullptr);
    has_set = true;
  }
  return has_set ? "sets a timer of the process (alarm, setitimer), which would end the run; it must not" : "";
}

std::string ProcessState::restore_limits() {
  bool has_changed = false;
  for (size_t i = 0; i < limits_.size(); ++i) {
    rlimit now{};
    const auto resource = static_cast<__rlimit_resource_t>(i);
    if (::getrlimit(resource, &now) != 0) continue;
    if (now.rlim_cur == limits_[i].rlim_cur && now.rlim_max == limits_[i].rlim_max) continue;
    ::setrlimit(resource, &limits_[i]);
    has_changed = true;
  }
  return has_changed ? "changes a limit of the process (setrlimit), which is the user's to set" : "";
}

std::string ProcessState::restore_locale() {
  std::string change;
  if (std::locale() != locale_ || c_locale_ != std::setlocale(LC_ALL, nullptr))
    change = "changes the locale, in which numbers are written and read; a plugin leaves it alone";
  if (std::locale() != locale_) std::locale::global(locale_);
  if (!change.empty()) std::setlocale(LC_ALL, c_locale_.c_str());
  return change;
}

std::string PathState::restore() const {
  std::string changes = restore_folder();
  const std::string mask = restore_creation_mask();
  return concat(changes, changes.empty() || mask.empty() ? "" : ", and ", mask);
}

std::string PathState::restore_folder() const {
  struct stat now {};
  if (folder_.empty() || (::stat(".", &now) == 0 && is_same(now, folder_status_))) return "";
  if (::chdir(folder_.c_str()) != 0) return "changes the current folder, which cannot be restored; it must not";
  return "changes the current folder, from which paths of other flags start; it must not";
}

/// By device and inode: a plugin may close a file and open another under its number.
std::string ProcessState::restore_files() {
  constexpr const char* kNames[] = {"input", "output", "error"};
  std::string changes;
  for (int file = 0; file < kNumFiles; ++file) {
    struct stat now {};
    const bool is_open = ::fstat(file, &now) == 0;
    if (files_[file] < 0 || (is_open && is_same(now, file_status_[file]))) continue;
    ::dup2(files_[file], file);
    changes += concat(changes.empty() ? "" : ", and ", is_open ? "replaces" : "closes", " standard ", kNames[file]);
  }
  if (!host_files_are_open()) return kClosesFiles;
  return changes.empty() ? "" : changes + "; a plugin writes to the host's log";
}

std::string PathState::restore_creation_mask() const {
  const std::optional<mode_t> now = creation_mask();
  if (!now || !creation_mask_ || now == creation_mask_) return "";
  ::umask(*creation_mask_);
  return "changes the permissions of files that are made later (umask), which are the user's to set";
}

std::string change_text(const void* function, const std::string& change) {
  return concat(call_text(function), " ", change);
}

void throw_change(const void* function, const std::string& change, const std::string& failure) {
  throw Error(TSR_E_FAILED_PRECONDITION,
              concat(change_text(function, change), failure.empty() ? "" : "; it failed with: ", failure));
}

}  // namespace tessera::host
