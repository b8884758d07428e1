#include "worker.h"

#include <memory>
#include <utility>

namespace cuda_on_cpu {

void Mark::set() {
  const std::lock_guard lock(mutex_);
  is_set_ = true;
  time_ = Clock::now();
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_set_; });
}

bool Mark::is_set() {
  const std::lock_guard lock(mutex_);
  return is_set_;
}

Worker::Worker() : thread_([this] { work(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Worker::add(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

bool Worker::is_idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !is_busy_;
}

void Worker::drain() {
  const auto end = std::make_shared<Mark>();
  add([end] { end->set(); });
  end->wait();
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !tasks_.empty() || is_closing_; });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    is_busy_ = true;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    is_busy_ = false;
  }
}

}  // namespace cuda_on_cpu
