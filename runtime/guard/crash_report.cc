// A handler finds the plugin by the function that its thread is in, or, on a thread that the plugin has started, by the
// code that it was interrupted in. It makes only calls that are safe in handlers, on a stack of its own
// (plugin_calls.cc).
//
// A fault of the processor is then repeated: the handler restores what was there before and returns to the instruction,
// so that the core and a sanitizer see the place itself. A signal that was sent is sent again.

#include "guard/crash_report.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <span>
#include <string_view>

#include "base/concat.h"
#include "base/ending.h"
#include "guard/call_watch.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"
#include "guard/process_copy.h"
#include "guard/readable.h"
#include "guard/write_line.h"

namespace tessera::host {
namespace {

constexpr std::array kTimerSignals = {SIGALRM, SIGVTALRM, SIGPROF};

std::array<struct sigaction, kCrashSignals.size()> actions_before;
std::atomic<bool> has_ended{false};
pid_t process = 0;                               // a plugin's child processes may exit as they like
std::atomic_flag is_claimed = ATOMIC_FLAG_INIT;  // by the first of the threads that crash together
std::atomic<bool> has_spoken{false};
constexpr int kPatienceMs = 10'000;  // with a first thread whose line does not leave

const void* instruction_of(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(registers.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(registers.pc);
#else
  return static_cast<void>(registers), nullptr;
#endif
}

void* stack_of(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<void*>(registers.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(registers.sp);
#else
  return static_cast<void>(registers), nullptr;
#endif
}

using TextSpace = std::array<char, 24>;

/// The decimal digits of a number, at the end of `space`.
std::string_view digits(unsigned number, std::span<char> space) {
  size_t first = space.size();
  do
    space[--first] = static_cast<char>('0' + number % 10);
  while (number /= 10);
  return {space.data() + first, space.size() - first};
}

/// "rank 3: ", at the end of `space`; "" for -1.
std::string_view rank_text(int rank, TextSpace& space) {
  constexpr std::string_view kBefore = "rank ", kAfter = ": ";
  if (rank < 0) return "";
  const std::span before_end = std::span(space).first(space.size() - kAfter.size());
  kAfter.copy(before_end.data() + before_end.size(), kAfter.size());
  const std::string_view number = digits(static_cast<unsigned>(rank), before_end);
  const size_t first = static_cast<size_t>(number.data() - space.data()) - kBefore.size();
  kBefore.copy(space.data() + first, kBefore.size());
  return {space.data() + first, space.size() - first};
}

/// The threads that crash beside the first one: each would end the process, and with it the line.
void wait_for_first() {
  constexpr int kPauseMs = 5;
  for (int waited = 0; !has_spoken && waited < kPatienceMs; waited += kPauseMs)
    ::poll(nullptr, 0, kPauseMs);
}

/// The plugin that has code on the stack of this thread, of which nothing else is known: abort() and std::terminate()
/// are called by it. Null if there is none.
const char* find_code_on_stack(const void* context) {
  constexpr size_t kMaxBytes = 64 << 10;
  std::array<const void*, 512> words;
  for (size_t done = 0; done < kMaxBytes; done += sizeof words) {
    const iovec to{words.data(), sizeof words};
    const iovec from{static_cast<char*>(stack_of(context)) + done, sizeof words};
    const ssize_t got = ::process_vm_readv(process, &to, 1, &from, 1, 0);
    for (ssize_t i = 0; i < got / static_cast<ssize_t>(sizeof(void*)); ++i)
      if (const char* plugin = find_code(words[static_cast<size_t>(i)])) return plugin;
    if (got != static_cast<ssize_t>(sizeof words)) break;
  }
  return nullptr;
}

const char* owner_of_thread(const void* context) {
  const char* plugin = find_code(instruction_of(context));
  return plugin || this_thread_calls.last_function() ? plugin : find_code_on_stack(context);
}

constexpr std::string_view kWasChanged =
    " was changed while it was in use, which changes code that runs; run this again, and replace a plugin by renaming "
    "a new file to its name";

/// Of one that another process has sent: nothing has crashed.
void say_sent(int signal, pid_t sender) {
  TextSpace rank, process_space;
  const char* name = ::sigabbrev_np(signal);
  write_line({"tessera: ", rank_text(this_thread_calls.rank, rank), "ended by SIG", name ? name : "?",
              ", which process ", digits(static_cast<unsigned>(sender), process_space), " sent\n"});
}

void say(int signal, const void* context) {
  const ThreadCalls& calls = this_thread_calls;
  const KnownFunction* known = find_function(calls.function());
  const KnownFunction* last = known ? nullptr : find_function(calls.last_function());
  const char* own_thread_of = known ? nullptr : owner_of_thread(context);
  const char* name = ::sigabbrev_np(signal);
  const char* const changed = find_changed_file();
  const bool has_run_error = run_error.is_before(calls.rank);
  const char* const error = has_run_error ? run_error.text : calls.has_error ? calls.error : nullptr;
  TextSpace rank, failed_rank;
  std::string_view plugin, doing, place;
  if (known)
    plugin = known->plugin, doing = " crashed in ", place = known->place;
  else if (own_thread_of)
    plugin = own_thread_of, doing = " crashed on a thread of its own";
  else
    doing = "crashed outside of the calls of plugins";
  write_line({"tessera: ",
              has_run_error ? rank_text(run_error.rank, failed_rank) : "",
              has_run_error ? "" : rank_text(calls.rank, rank),
              error ? error : "",
              error ? "; after that " : "",
              has_run_error ? rank_text(calls.rank, rank) : "",
              plugin.empty() ? "" : "the plugin ",
              plugin,
              doing,
              place,
              " (SIG",
              name ? name : "?",
              ")",
              last ? "; before that the thread was in the plugin " : "",
              last ? last->plugin : "",
              last ? " in " : "",
              last ? last->place : "",
              changed ? "; the file " : "",
              changed ? changed : "",
              changed ? kWasChanged : "",
              "\n"});
}

extern "C" void on_crash(int signal, siginfo_t* info, void* context) {
  if ((signal == SIGSEGV || signal == SIGBUS) && go_on_after_touch(context)) return;
  if (is_claimed.test_and_set()) {
    wait_for_first();
  } else {
    const bool is_from_elsewhere = info->si_code <= 0 && info->si_pid > 0 && info->si_pid != process;
    if (is_from_elsewhere)
      say_sent(signal, info->si_pid);
    else
      say(signal, context);
    has_spoken = true;
    ending->is_told = true;
  }
  for (size_t i = 0; i < kCrashSignals.size(); ++i)
    if (kCrashSignals[i] == signal) ::sigaction(signal, &actions_before[i], nullptr);
  if (info->si_code <= 0) ::raise(signal);  // delivered when this handler has returned
}

void on_exit_of_process() {
  if (has_ended || ::getpid() != process) return;
  static std::atomic_flag is_said;
  while (is_said.test_and_set())
    ::pause();  // the thread that was first ends the process
  const void* function = this_thread_calls.function();
  end_run(function ? concat(call_text(function), " called exit, so the run ends")
                   : "a plugin or one of its libraries called exit on a thread of its own, so the run ends");
}

}  // namespace

void report_crashes() {
  process = ::getpid();
  standard_error();  // looked at now, since a signal's handler may not
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < kCrashSignals.size(); ++i)
    ::sigaction(kCrashSignals[i], &action, &actions_before[i]);
  for (const int signal : kTimerSignals) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) ::signal(signal, SIG_IGN);
  }
  expect_handler();
  ::atexit(on_exit_of_process);
  ::at_quick_exit(on_exit_of_process);
}

void end_of_program() {
  constexpr int kCopyMs = 5'000;  // no longer than the copy lives, and nothing where there is none
  if (const void* function = returned_copy(kCopyMs)) end_run(copy_sentence(function));
  has_ended = true;
}

}  // namespace tessera::host

// The program exports these, so they come before those of libc for plugins and their libraries. Sanitizers have their
// own. libc's exit() may crash when two threads call it at once, as ranks in threads do when their plugin does.
#ifndef TESSERA_IS_SANITIZED
namespace {

void check_exit() {
  if (tessera::host::this_thread_calls.function() && !tessera::host::host_ends_process)
    tessera::host::on_exit_of_process();
}

}  // namespace

extern "C" void exit(int status) noexcept {
  check_exit();
  reinterpret_cast<void (*)(int)>(::dlsym(RTLD_NEXT, "exit"))(status);
  __builtin_unreachable();
}
extern "C" void _exit(int status) {
  check_exit();
  for (;;)
    ::syscall(SYS_exit_group, status);
}
#if defined(__x86_64__)
// As libc's, but for the one call that ends the process. Arguments that the caller has not given are not used.
extern "C" __attribute__((visibility("default"))) long syscall(long number, ...) noexcept {
  if (number == SYS_exit_group) check_exit();
  va_list arguments;
  va_start(arguments, number);
  std::array<long, 6> of;
  for (long& argument : of)
    argument = va_arg(arguments, long);
  va_end(arguments);
  register long r10 __asm__("r10") = of[3];
  register long r8 __asm__("r8") = of[4];
  register long r9 __asm__("r9") = of[5];
  long result = number;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(of[0]), "S"(of[1]), "d"(of[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  constexpr long kMaxErrno = 4095;
  if (result >= 0 || result < -kMaxErrno) return result;
  errno = static_cast<int>(-result);
  return -1;
}
#endif
extern "C" void _Exit(int status) noexcept {
  ::_exit(status);
}
#endif
