// How the creation of communicators is cancelled.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::host {

/// The flag that cancels create: a thread sets it once `cancelled` returns true, since create blocks.
class CancelWatch {
 public:
  explicit CancelWatch(const std::function<bool()>& cancelled)
      : thread_([this, cancelled](const std::stop_token& stop) { watch(stop, cancelled); }) {}
  const uint32_t* flag() const { return &flag_; }

 private:
  void watch(const std::stop_token& stop, const std::function<bool()>& cancelled) {
    constexpr std::chrono::milliseconds kPeriod(200);
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait_for(lock, stop, kPeriod, [] { return false; });
      if (stop.stop_requested()) return;
      if (cancelled()) std::atomic_ref(flag_).store(1, std::memory_order_release);
    }
  }

  uint32_t flag_ = 0;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace tessera::host
