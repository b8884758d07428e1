// Ends the run when a plugin's function does not return: nothing else can, since a thread cannot be stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "guard/thread_calls.h"

namespace tessera::host {

/// --start-timeout-ms and --timeout-ms; what each is for, see CallLimit.
struct CallTimeouts {
  int64_t start_ms = 300'000;
  int64_t step_ms = 100'000;
};

/// Watches the calls of all threads from now on. A call that outlives its time-out by a grace of two seconds and a
/// twentieth, which leave it time to report that itself, ends the run. Without a thread for it (ulimit -u) calls are
/// not watched. [any-thread]
void watch_calls();
void set_call_timeouts(const CallTimeouts& timeouts);
/// How long a parent waits for a process whose calls have that time-out: until the watch has ended it and said why.
int64_t end_of_calls_ms(int64_t timeout_ms);

/// Ends the process with exit code 1 and the sentence, which is about that rank. [any-thread]
[[noreturn]] void end_run(const std::string& sentence, int rank = this_thread_calls.rank) noexcept;

/// Says to the job, and to the user unless another process does, why this one is about to end.
using LastWords = std::function<void(const std::string& sentence)>;

/// While it lives end_run() calls `say`; without one it prints the sentence.
class LastWordsScope {
 public:
  explicit LastWordsScope(LastWords say);
  ~LastWordsScope();
  LastWordsScope(const LastWordsScope&) = delete;
  LastWordsScope& operator=(const LastWordsScope&) = delete;
};

/// The threads whose calls are watched; each removes itself before it ends.
void add_thread(ThreadCalls& calls);
void remove_thread(ThreadCalls& calls);

}  // namespace tessera::host
