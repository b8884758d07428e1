// What a plugin must leave as it was: state of the process and of the calling thread that everything else relies on.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>

#include <array>
#include <locale>
#include <optional>
#include <string>

#include "guard/plugin_calls.h"

namespace tessera::host {

inline constexpr const char* kClosesFiles = "closes files of the host; a plugin closes what it has opened itself";

/// What paths and new files depend on: the current folder, and the permissions of files (umask), when it was made.
class PathState {
 public:
  PathState();
  /// As ProcessState::restore().
  std::string restore() const;

 private:
  std::string restore_folder() const;
  std::string restore_creation_mask() const;

  std::string folder_;  ///< its path; empty if it has none
  struct stat folder_status_ {};
  std::optional<mode_t> creation_mask_;
};

/// To be called before the first plugin is loaded: what paths depend on is then what the user gave the program.
void note_paths_of_program();
/// Restores that, and throws FAILED_PRECONDITION, if a plugin has changed it where the process is not compared: in a
/// step, or on a thread of the plugin's own.
void require_paths_of_program();

/// The state when it was made:
///   - how this thread computes: rounding, and whether denormals are flushed to zero, which changes results silently
///   - what signals do, which of them this thread blocks, and the stack of its handlers
///   - timers that end the process, and its limits
///   - the locale, in which numbers are written and read
///   - the current folder, and the permissions of new files
///   - which files are standard input, output and error
/// Takes and compares in about 20 us. [control-thread]
class ProcessState {
 public:
  ProcessState();
  ~ProcessState();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;

  /// Restores what has changed; what that was and what its author should do, as the end of a sentence: "changes the
  /// locale; ...". Empty if nothing has.
  std::string restore();

 private:
  std::string restore_computing();
  std::string restore_signals();
  std::string restore_mask();
  std::string restore_handler_stack();
  std::string restore_timers();
  std::string restore_limits();
  std::string restore_locale();
  std::string restore_paths() { return paths_.restore(); }
  std::string restore_files();

  static constexpr int kNumFiles = 3;
  const pid_t process_;
  uint64_t computing_;
  std::array<struct sigaction, NSIG> signals_{};
  sigset_t mask_;
  stack_t handler_stack_{};
  static constexpr std::array kTimers = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  std::array<itimerval, kTimers.size()> timers_{};
  std::array<rlimit, RLIM_NLIMITS> limits_{};
  std::string c_locale_;
  std::locale locale_;
  PathState paths_;
  std::array<int, kNumFiles> files_;  ///< copies, or -1
  std::array<struct stat, kNumFiles> file_status_{};
};

/// "the plugin fsdp (...) in its function create CHANGE".
std::string change_text(const void* function, const std::string& change);

/// Throws FAILED_PRECONDITION with that text, and with what the function has failed with besides, if anything.
[[noreturn]] void throw_change(const void* function, const std::string& change, const std::string& failure);

/// call(), and then throws FAILED_PRECONDITION, naming the function, if it has changed the state of the process, which
/// is then restored.
template <class... P, class... A>
void call_unchanged(tsr_status (*function)(P...), A&&... args) {
  ProcessState before;
  try {
    call(function, std::forward<A>(args)...);
  } catch (const Error& error) {
    const std::string change = before.restore();
    if (change.empty()) throw;
    throw_change(address_of(function), change, error.what());
  }
  if (const std::string change = before.restore(); !change.empty()) throw_change(address_of(function), change, "");
}

/// made_by(), or with `may_be_null` call_unchanged(), for a function that makes a plugin's object. One that has changed
/// the state of the process is not destroyed.
template <class T, class... P, class... A>
T* create_by(bool may_be_null, tsr_status (*function)(P...), A&&... args) {
  T* object = nullptr;
  call_unchanged(function, std::forward<A>(args)..., &object);
  if (!may_be_null) check_handle(object, address_of(function));
  return object;
}

}  // namespace tessera::host
