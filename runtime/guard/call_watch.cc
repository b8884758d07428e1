// A thread wakes five times a second and looks at the frames of all threads. A frame whose number is the one of the
// last look has been there all the while: so a call writes no clock, and the time that a stopped process or a sleeping
// machine has lost is not counted, since one look never adds more than a second.
//
//     look              |        |        |        |
//     frame's number    7        7        8        8
//     seen for          0        200      0        200 ms
//
// The thread's stack is small, and it allocates nothing before it ends the run: limits on memory count both.

#include "guard/call_watch.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/concat.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/small_thread.h"
#include "guard/known_functions.h"
#include "guard/process_copy.h"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval(200);
constexpr int64_t kMaxStepMs = 1'000;  // more than one look adds
constexpr int64_t kGraceMs = 2'000, kGraceShare = 20;
constexpr int64_t kAbortMs = 2'000;

// Never destroyed: threads may outlive static objects.
struct Watch {
  std::mutex mutex;  // guards the next two, and that no thread's calls end
  ThreadCalls* threads = nullptr;
  bool is_started = false;
  std::atomic<int64_t> start_ms = CallTimeouts().start_ms, step_ms = CallTimeouts().step_ms;
  std::mutex words_mutex;  // guards `say`
  LastWords say;
  int64_t over_ms = 0;  // since a rank of this process has failed; of the watch's own thread
};
Watch& watch() {
  static Watch& one = *new Watch;
  return one;
}

int64_t timeout_of(const KnownFunction* function, int64_t own_ms) {
  if (own_ms) return own_ms;
  if (function && function->limit == CallLimit::step) return watch().step_ms;
  return function && function->limit == CallLimit::abort ? kAbortMs : watch().start_ms.load();
}

const char* flag_for(const KnownFunction* function, int64_t own_ms) {
  if (own_ms || (function && function->limit == CallLimit::abort)) return "";
  return function && function->limit == CallLimit::step ? " (--timeout-ms)" : " (--start-timeout-ms)";
}

std::string sentence_of(const ThreadCalls& thread, const CallFrame& frame, const std::string& limit) {
  const void* function = frame.function;
  const KnownFunction* known = find_function(function);
  const bool begins = thread.has_error && !run_error.is_before(thread.rank);
  return concat(begins ? concat(thread.error, "; after that ") : "", plugin_text(function), " has not returned from ",
                known ? known->place : "a function", " within ", limit, ", so the run ends");
}

/// When a call with that time-out ends the run.
int64_t call_limit_ms(int64_t timeout_ms) {
  return timeout_ms + kGraceMs + timeout_ms / kGraceShare;
}

/// What a call lasts too long for; empty: it does not.
std::string exceeded_limit(const ThreadCalls& thread, const CallFrame& frame) {
  const KnownFunction* known = find_function(frame.function);
  const int64_t timeout_ms = timeout_of(known, frame.limit_ms);
  if (frame.seen_for_ms > call_limit_ms(timeout_ms)) return concat(timeout_ms, " ms", flag_for(known, frame.limit_ms));
  const int64_t over_ms = std::min(frame.seen_for_ms, watch().over_ms);
  return run_error.is_before(thread.rank) && over_ms > call_limit_ms(kAbortMs) ? concat(kAbortMs, " ms") : "";
}

std::string error_before(int rank) {
  if (!run_error.is_before(rank)) return "";
  return concat("rank ", run_error.rank, ": ", run_error.text, "; after that ");
}

struct Ending {
  std::string sentence;
  int rank;
};

/// Adds the time since the last look to each call; what one that takes too long ends the run with, if there is one.
std::optional<Ending> look(int64_t passed_ms) {
  Watch& all = watch();
  const std::lock_guard lock(all.mutex);
  all.over_ms = run_error.is_there ? all.over_ms + passed_ms : 0;
  for (ThreadCalls* thread = all.threads; thread; thread = thread->next) {
    const uint32_t depth = std::min(thread->depth.load(std::memory_order_acquire), ThreadCalls::kMaxDepth);
    for (CallFrame& frame : std::span(thread->frames, depth)) {
      const uint64_t number = frame.number;
      frame.seen_for_ms = number == frame.seen_number ? frame.seen_for_ms + passed_ms : 0;
      frame.seen_number = number;
      if (const std::string limit = exceeded_limit(*thread, frame); !limit.empty())
        return Ending{sentence_of(*thread, frame, limit), thread->rank};
    }
  }
  return std::nullopt;
}

void watch_for_ever() {
  for (auto last = Clock::now();;) {
    std::this_thread::sleep_for(kInterval);
    const auto now = Clock::now();
    const auto passed_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - last).count();
    last = now;
    if (const void* function = returned_copy()) end_run(copy_sentence(function), -1);
    if (const auto ending = look(std::min(passed_ms, kMaxStepMs))) end_run(ending->sentence, ending->rank);
  }
}

/// With all signals blocked: they are for threads that receive them (launch/run_signals.h).
void start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (start_small_thread(thread, watch_for_ever) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void watch_calls() {
  const std::lock_guard lock(watch().mutex);
  if (!std::exchange(watch().is_started, true)) start();
}

void set_call_timeouts(const CallTimeouts& timeouts) {
  watch().start_ms = timeouts.start_ms;
  watch().step_ms = timeouts.step_ms;
}

int64_t end_of_calls_ms(int64_t timeout_ms) {
  constexpr int64_t kToSayMs = 1'000;
  return call_limit_ms(timeout_ms) + kToSayMs;
}

LastWordsScope::LastWordsScope(LastWords say) {
  const std::lock_guard lock(watch().words_mutex);
  watch().say = std::move(say);
}

LastWordsScope::~LastWordsScope() {
  const std::lock_guard lock(watch().words_mutex);
  watch().say = nullptr;
}

void add_thread(ThreadCalls& calls) {
  const std::lock_guard lock(watch().mutex);
  calls.next = std::exchange(watch().threads, &calls);
}

void remove_thread(ThreadCalls& calls) {
  const std::lock_guard lock(watch().mutex);
  for (ThreadCalls** place = &watch().threads; *place; place = &(*place)->next)
    if (*place == &calls) {
      *place = calls.next;
      return;
    }
}

void end_run(const std::string& sentence, int rank) noexcept {
  std::unique_lock only(watch().words_mutex, std::defer_lock);  // kept to the end: another thread has nothing to add
  try {
    only.lock();
    if (watch().say)
      watch().say(sentence);
    else
      print_error(concat(error_before(rank), rank < 0 ? "" : concat("rank ", rank, ": "), sentence));
  } catch (...) {  // the exit code remains
  }
  end_process(1);  // past destructors, which may wait for the thread that does not return
}

}  // namespace tessera::host
