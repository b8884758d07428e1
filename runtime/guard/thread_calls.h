// What each thread notes about the calls that it is in, for the watch and for handlers of signals.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::host {

/// A plugin's function that a thread is in. Its thread writes it; handlers and the watch read it.
struct CallFrame {
  std::atomic<const void*> function{nullptr};
  std::atomic<uint64_t> number{0};   ///< of the calls of this thread, so that the watch tells one call from the next
  std::atomic<int64_t> limit_ms{0};  ///< the time-out of this call alone; 0: that of the function
  uint64_t seen_number = 0;          ///< the watch's own, as is the next
  int64_t seen_for_ms = 0;
};

/// The calls that a thread is in: a plugin calls the host, which may call another plugin.
struct ThreadCalls {
  static constexpr uint32_t kMaxDepth = 4;  // calls deeper than that are not noted
  CallFrame frames[kMaxDepth];
  std::atomic<uint32_t> depth{0};
  std::atomic<int> rank{-1};  ///< whose thread it is; -1: not known, or the only rank
  uint64_t num_calls = 0;
  bool is_known = false;  ///< to the watch
  std::atomic<bool> has_error{false};
  char error[512] = {};  ///< what went wrong on this thread so far, while has_error
  ThreadCalls* next = nullptr;

  /// The innermost function, or null.
  const void* function() const {
    const uint32_t now = depth.load(std::memory_order_relaxed);
    return now == 0 || now > kMaxDepth ? nullptr : frames[now - 1].function.load(std::memory_order_relaxed);
  }
  /// The outermost function of the last call, which may have ended; null: there was none.
  const void* last_function() const { return frames[0].function.load(std::memory_order_relaxed); }
};
inline constinit thread_local ThreadCalls this_thread_calls;

/// What the rank that failed first has failed with, where ranks are threads: the sentences of the others begin with it.
struct RunError {
  std::atomic<bool> is_there{false};
  int rank = -1;
  char text[512] = {};

  /// It came before what a thread of `other` has to say.
  bool is_before(int other) const { return is_there && rank != other; }
};
inline constinit RunError run_error;

}  // namespace tessera::host
