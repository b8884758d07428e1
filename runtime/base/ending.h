// What a process tells its parent about its end, in shared memory: exit codes and signals can be set by any
// plugin in the process.
#pragma once

#include <atomic>

namespace tessera::host {

struct Ending {
  /// The user has been told why the process ends with a code that is not 0, or by a signal.
  std::atomic<bool> is_told = false;
  /// Set by the program before it exits with 0. An exit code of 0 without it is a plugin's.
  std::atomic<bool> has_finished = false;
  /// All that is left to do is to write lines of the log that their reader has not taken yet.
  std::atomic<bool> waits_for_reader = false;
};

inline Ending ending_here;

/// This process's, shared with its parent where that asks (guard/supervisor.h, launch/launched_ranks.h).
inline Ending* ending = &ending_here;

/// Set before the host ends the process, which may be in a plugin's call; an _exit() without it is that plugin's.
inline std::atomic<bool> host_ends_process{false};

/// Ends the process at once, past destructors and handlers, which may wait for threads or be a plugin's. The user has
/// been told why, if the code is not 0.
[[noreturn]] void end_process(int exit_code);

/// Zeroed memory for the endings of several child processes. Forked ones share it; started ones call take_ending.
class SharedEndings {
 public:
  /// Throws UNAVAILABLE.
  explicit SharedEndings(int num_processes);
  ~SharedEndings();
  SharedEndings(const SharedEndings&) = delete;
  SharedEndings& operator=(const SharedEndings&) = delete;

  Ending& operator[](int process) const { return endings_[process]; }
  int num_processes() const { return num_processes_; }
  /// The descriptor for take_ending. It is close-on-exec: a child that is to keep it clears that flag before exec.
  int file() const { return file_; }

 private:
  int num_processes_, file_ = -1;
  Ending* endings_ = nullptr;
};

/// Makes `ending` that of `process` in an inherited SharedEndings, whose file it closes. False where there is none.
bool take_ending(int file, int process);

}  // namespace tessera::host
