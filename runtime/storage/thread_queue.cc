// Requests over four threads, each in one pread or pwrite at a time: where io_uring is refused. Four are enough to keep
// one disk busy with requests of 1 MiB.

#include "storage/thread_queue.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::host {
namespace {

constexpr size_t kThreads = 4;

int64_t perform(const IoRequest& request) {
  const auto offset = static_cast<off_t>(request.offset);
  const ssize_t result = request.is_write ? ::pwrite(request.descriptor, request.data, request.num_bytes, offset)
                                          : ::pread(request.descriptor, request.data, request.num_bytes, offset);
  return result < 0 ? -errno : result;
}

class ThreadQueue final : public IoQueue {
 public:
  ThreadQueue() {
    waiting_.reserve(kSlots);
    done_.reserve(kSlots);
    try {
      for (std::thread& thread : threads_)
        thread = std::thread([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~ThreadQueue() override { stop(); }
  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;

  void start(unsigned slot, const IoRequest& request) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({slot, request});
    }
    has_work_.notify_one();
  }

  std::optional<IoCompletion> wait_until(Clock::time_point deadline) override {
    std::unique_lock lock(mutex_);
    while (done_.empty()) {
      if (Clock::now() >= deadline) return std::nullopt;
      // Not wait_until: the farthest time there is would overflow in it.
      has_result_.wait_for(lock, std::min<Clock::duration>(deadline - Clock::now(), std::chrono::hours(1)));
    }
    const IoCompletion completion = done_.front();
    done_.erase(done_.begin());
    return completion;
  }

 private:
  struct Waiting {
    unsigned slot;
    IoRequest request;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      has_work_.wait(lock, [this] { return !waiting_.empty() || stops_; });
      if (waiting_.empty()) return;
      const Waiting next = waiting_.front();
      waiting_.erase(waiting_.begin());
      lock.unlock();
      const int64_t result = perform(next.request);
      lock.lock();
      done_.push_back({next.slot, result});
      has_result_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }

  std::mutex mutex_;
  std::condition_variable has_work_, has_result_;
  // Under mutex_; neither grows beyond what was reserved.
  std::vector<Waiting> waiting_;
  std::vector<IoCompletion> done_;
  bool stops_ = false;  // under mutex_
  std::array<std::thread, kThreads> threads_;
};

}  // namespace

std::unique_ptr<IoQueue> make_thread_queue() {
  return std::make_unique<ThreadQueue>();
}

}  // namespace tessera::host
