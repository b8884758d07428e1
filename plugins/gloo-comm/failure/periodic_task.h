// A thread that calls a function at regular intervals.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::gloo_comm {

/// Calls a function, which must not throw, once per period on a thread of its own, until it is destroyed.
class PeriodicTask {
 public:
  PeriodicTask(std::chrono::milliseconds period, std::function<void()> tick)
      : period_(period), tick_(std::move(tick)), thread_([this] { run(); }) {}
  ~PeriodicTask() {
    set(stops_);
    thread_.join();
  }
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

  /// The next call is due now. [any-thread]
  void run_now() noexcept { set(is_due_); }

 private:
  void set(bool& flag) {
    {
      const std::lock_guard lock(mutex_);
      flag = true;
    }
    wake_.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait_for(lock, period_, [this] { return stops_ || is_due_; });
      if (stops_) return;
      is_due_ = false;
      lock.unlock();
      tick_();
      lock.lock();
    }
  }

  const std::chrono::milliseconds period_;
  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stops_ = false, is_due_ = false;  // guarded by mutex_
  std::thread thread_;                   // last: it uses the members above
};

}  // namespace tessera::gloo_comm
