// A thread that does its tasks in order, and what others wait for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cuda_on_cpu {

using Task = std::function<void()>;

/// Something that happens once. [any-thread]
class Mark {
 public:
  using Clock = std::chrono::steady_clock;
  void set();
  void wait();
  bool is_set();
  /// When it was set. It must have been.
  Clock::time_point time() const { return time_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
  Clock::time_point time_;
};

class Worker {
 public:
  Worker();
  ~Worker();  // after its tasks
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void add(Task task);
  bool is_idle();
  /// Waits for the tasks there are now.
  void drain();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool is_busy_ = false, is_closing_ = false;
  std::thread thread_;
};

}  // namespace cuda_on_cpu
