// What is not on the way of a call that succeeds: a thread's first call, and the sentences about calls that failed. The
// header has the way of the others, which is inlined at every call.
//
//     call()       tsr_status that is not OK       Error with the plugin's message; noted for the watch
//     call()       an exception                    Error INTERNAL that names the function
//     enter()      another rounding mode           restored; Error FAILED_PRECONDITION
//     end_with()   any of these                    end_run(): nothing may be thrown there

#include "guard/plugin_calls.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "base/concat.h"
#include "guard/known_functions.h"

namespace tessera::host {
namespace {

constexpr size_t kHandlerStackBytes = 64 << 10;

template <size_t kSize>
void copy_to(char (&place)[kSize], std::string_view text) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(place, text.data(), length);
  place[length] = 0;
}

/// A thread's place in the watch's list, and its stack for handlers: a plugin that recurses without end leaves none.
class KnownThread {
 public:
  KnownThread() : stack_(new char[kHandlerStackBytes]) {
    const stack_t own{stack_.get(), 0, kHandlerStackBytes};
    ::sigaltstack(nullptr, &before_);
    has_set_ = (before_.ss_flags & SS_DISABLE) != 0 && ::sigaltstack(&own, nullptr) == 0;
    add_thread(this_thread_calls);
  }
  ~KnownThread() {
    remove_thread(this_thread_calls);
    if (has_set_) ::sigaltstack(&before_, nullptr);
  }
  KnownThread(const KnownThread&) = delete;
  KnownThread& operator=(const KnownThread&) = delete;

 private:
  std::unique_ptr<char[]> stack_;
  stack_t before_{};
  bool has_set_ = false;
};

}  // namespace

void know_this_thread() {
  this_thread_calls.is_known = true;  // first: it stays so while the thread ends
  // A plugin that cancels a thread of the host would end it later, somewhere in the host.
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  thread_local const KnownThread known;
}

void name_rank_of_this_thread(int rank) {
  this_thread_calls.rank = rank;
}

void note_error(std::string_view text) noexcept {
  ThreadCalls& calls = this_thread_calls;
  calls.has_error = false;
  copy_to(calls.error, text);
  calls.has_error = !text.empty();
}

void note_run_error(int rank, std::string_view text) noexcept {
  static std::mutex noting;
  const std::lock_guard lock(noting);
  if (run_error.is_there) return;
  run_error.rank = rank;
  copy_to(run_error.text, text);
  run_error.is_there = true;
}

void forget_run_error() noexcept {
  run_error.is_there = false;
}

std::string begin_with_noted_error() {
  const ThreadCalls& calls = this_thread_calls;
  const bool begins = calls.has_error && !run_error.is_before(calls.rank);
  return begins ? concat(calls.error, "; after that ") : "";
}

std::string text_in_parentheses(const std::exception& error) {
  constexpr size_t kMaxLength = 300;
  const char* const what = error.what();
  if (!what) return "";
  const size_t length = strnlen(what, kMaxLength + 1);
  return concat(" (", std::string_view(what, std::min(length, kMaxLength)), length > kMaxLength ? "...)" : ")");
}

void throw_escaped(const void* function) {
  std::string what;
  try {
    throw;
  } catch (const std::exception& error) {
    what = text_in_parentheses(error);
  } catch (...) {
  }
  throw Error(TSR_E_INTERNAL,
              concat("an exception", what, " has left ", call_text(function), "; a plugin returns a status instead"));
}

void throw_changed_computing() {
  const std::string text = concat(call_text(this_thread_calls.function()), " ", kChangesComputing);
  note_error(text);
  throw Error(TSR_E_FAILED_PRECONDITION, text);
}

void end_by_lost_thread(const void* function) {
  end_run(concat(call_text(function), " ended the thread that called it (pthread_exit), so the run ends"));
}

namespace {

/// An error speaks in the name of its domain. A stream's may be that of whatever works on it.
bool needs_name(const tsr_error& err, const void* function) {
  const KnownFunction* known = find_function(function);
  const bool has_name = known && std::strchr(known->plugin, '(');  // a plugin that is being loaded is its file's path
  const std::string_view domain(err.domain, strnlen(err.domain, sizeof err.domain));
  return has_name && std::string_view(known->place) != "its function stream_synchronize" && !is_plugin_name(domain);
}

std::string text_of(tsr_status status, const tsr_error& err, const void* function) {
  if (err.message[0] == '\0') return concat("status ", status, " without a message from ", call_text(function));
  try {
    check(status, err);
    return "";
  } catch (const Error& error) {
    return needs_name(err, function) ? concat(error.what(), " (from ", call_text(function), ")") : error.what();
  }
}

}  // namespace

void check_call(tsr_status status, const tsr_error& err, const void* function) {
  const std::string text = text_of(status, err, function);
  note_error(text);
  throw Error(status, text, err.rank);
}

void check_handle(const void* handle, const void* function) {
  if (!handle)
    throw Error(TSR_E_INTERNAL,
                concat(call_text(function), " returned OK and no object; it must return one, or an error"));
}

}  // namespace tessera::host
