// Host functions that CUDA has been given and that have not run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

namespace tessera::cuda {

/// Counts them, so that what they use is not freed before. [any-thread]
class CallsInFlight {
 public:
  void submit(size_t num_calls) noexcept { num_pending_.fetch_add(num_calls, std::memory_order_relaxed); }
  /// CUDA has not taken them.
  void cancel(size_t num_calls) noexcept { num_pending_.fetch_sub(num_calls, std::memory_order_relaxed); }
  /// One begins to run, and has run.
  void begin() noexcept { num_running_.fetch_add(1, std::memory_order_relaxed); }
  void end() noexcept {
    num_pending_.fetch_sub(1, std::memory_order_release);  // begin() is seen with it
    num_running_.fetch_sub(1, std::memory_order_release);
  }

  /// Waits until all have run. On a failed device a stream counts as done while its last function is still running, or
  /// a thread of CUDA's is about to begin it, and others are dropped. CUDA does not say which: those that have not
  /// begun after a moment.
  void wait() const noexcept {
    using SteadyClock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kMoment(100);
    const auto end = SteadyClock::now() + kMoment;
    // Pending ones first: one that has begun since, and has not ended, is then seen to run.
    while ((num_pending_.load(std::memory_order_acquire) > 0 && SteadyClock::now() < end) ||
           num_running_.load(std::memory_order_acquire) > 0)
      std::this_thread::yield();
  }

 private:
  std::atomic<size_t> num_pending_{0}, num_running_{0};  // those that run are pending too
};

}  // namespace tessera::cuda
