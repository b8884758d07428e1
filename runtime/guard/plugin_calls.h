// Every call of a plugin's function goes through call(), enter() or end_with(). Each notes, for the thread that it is
// called on, which function that is; so a crash, an exit and a call that does not return are named (crash_report.h,
// call_watch.h), and an exception that leaves a plugin is caught. Afterwards the floating-point state is checked and
// restored (floating_point.h), and a forked copy that returns is ended (process_copy.h).
//
// A call costs a few thread-local stores and two reads of the floating-point control registers: no lock, no clock, no
// system call. Names are looked up by the function's address only when something has gone wrong (known_functions.h).
#pragma once

#include <cxxabi.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "guard/call_watch.h"
#include "guard/floating_point.h"
#include "guard/process_copy.h"
#include "guard/thread_calls.h"
#include "tessera/core.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// Makes this thread known to the watch, and gives it a stack of its own for handlers, until it ends.
void know_this_thread();
/// Calls of this thread are those of that rank.
void name_rank_of_this_thread(int rank);
/// Keeps the text for the report of a call that does not return: the error that came before it must not be lost with
/// the run. An empty one forgets the last.
void note_error(std::string_view text) noexcept;
/// That text as the beginning of a sentence: "no cable; after that "; empty if there is none.
std::string begin_with_noted_error();
/// The same for all ranks of this process, once one of them has failed. From then on the calls of the others have two
/// seconds, as the run is over. The first counts, until it is forgotten. [any-thread]
void note_run_error(int rank, std::string_view text) noexcept;
void forget_run_error() noexcept;

/// Throws FAILED_PRECONDITION, naming the innermost function: it has changed how floating-point numbers are computed.
[[noreturn]] void throw_changed_computing();

/// While it lives this thread is in `function`.
class PluginCall {
 public:
  explicit PluginCall(const void* function, int64_t limit_ms = 0) noexcept
      : calls_(this_thread_calls), computing_(computing_now()) {
    if (!calls_.is_known) [[unlikely]]
      know_this_thread();
    const uint32_t depth = calls_.depth.load(std::memory_order_relaxed);
    if (depth < ThreadCalls::kMaxDepth) {
      CallFrame& frame = calls_.frames[depth];
      frame.function.store(function, std::memory_order_relaxed);
      frame.limit_ms.store(limit_ms, std::memory_order_relaxed);
      frame.number.store(++calls_.num_calls, std::memory_order_relaxed);
    }
    calls_.depth.store(depth + 1, std::memory_order_release);
  }
  ~PluginCall() {
    if (is_copy_of_host()) [[unlikely]]
      end_copy();
    calls_.depth.store(calls_.depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

  void restore_computing() const noexcept { compute_as(computing_); }
  /// After the call: restores how floating-point numbers are computed, and throws if that had changed.
  void check_computing() const {
    if (computing_now() == computing_) [[likely]]
      return;
    restore_computing();
    throw_changed_computing();
  }

 private:
  ThreadCalls& calls_;
  const uint64_t computing_;
};

/// The text of a plugin's exception in parentheses, after a space; cut where it is long, empty where it has none.
std::string text_in_parentheses(const std::exception& error);
/// In a handler of exceptions: throws INTERNAL, a sentence that names the function and has the exception's text.
[[noreturn]] void throw_escaped(const void* function);
/// Ends the run: the function ended its thread.
[[noreturn]] void end_by_lost_thread(const void* function);
/// Throws what the function reported.
void check_call(tsr_status status, const tsr_error& err, const void* function);
/// Throws INTERNAL if `handle`, which a function that returned OK has given, is null.
void check_handle(const void* handle, const void* function);

template <class R, class... P>
const void* address_of(R (*function)(P...)) {
  return reinterpret_cast<const void*>(function);
}

/// Calls any function of a plugin. `limit_ms` is the time-out that the function itself was given, if any. If it changed
/// the floating-point state, that is restored and reported by an exception, whatever it returned.
template <class R, class... P, class... A>
R enter_for(int64_t limit_ms, R (*function)(P...), A&&... args) {
  const PluginCall here(address_of(function), limit_ms);
  const auto run = [&]() -> R {
    try {
      return function(std::forward<A>(args)...);
    } catch (abi::__forced_unwind&) {
      end_by_lost_thread(address_of(function));
    } catch (...) {
      here.restore_computing();
      throw_escaped(address_of(function));
    }
  };
  if constexpr (std::is_void_v<R>) {
    run();
    here.check_computing();
  } else {
    const R result = run();
    here.check_computing();
    return result;
  }
}
template <class R, class... P, class... A>
R enter(R (*function)(P...), A&&... args) {
  return enter_for(0, function, std::forward<A>(args)...);
}

/// Calls a function whose last parameter is tsr_error*, and throws what it reports.
template <class... P, class... A>
void call_for(int64_t limit_ms, tsr_status (*function)(P...), A&&... args) {
  tsr_error err{};
  const tsr_status status = enter_for(limit_ms, function, std::forward<A>(args)..., &err);
  if (status != TSR_OK) check_call(status, err, address_of(function));
}
template <class... P, class... A>
void call(tsr_status (*function)(P...), A&&... args) {
  call_for(0, function, std::forward<A>(args)...);
}

/// call() for a function whose last result is a handle, which must not be null.
template <class T, class... P, class... A>
T* made_by(tsr_status (*function)(P...), A&&... args) {
  T* handle = nullptr;
  call(function, std::forward<A>(args)..., &handle);
  check_handle(handle, address_of(function));
  return handle;
}

/// Calls a function that reports nothing, where nothing may be thrown. An exception ends the run, with the error that
/// came before it.
template <class... P, class... A>
void end_with(void (*function)(P...), A&&... args) noexcept {
  const std::string before = begin_with_noted_error();
  try {
    enter(function, std::forward<A>(args)...);
  } catch (const Error& error) {
    end_run(before + error.what());
  }
}

}  // namespace tessera::host
