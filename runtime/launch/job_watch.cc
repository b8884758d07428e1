// The watch thread blocks in a get of a key that only this rank sets, at its own end; so the get returns when the rank
// ends, and throws when the store is closed (a rank failed) or lost (the rank that serves it died). Nothing is polled.
//
//     rank 3    tell: set failure/3, close the store
//     others    their get throws -> is_over() -> grace_ms to leave with an error of their own -> report, exit code 1

#include "launch/job_watch.h"

#include <unistd.h>

#include <chrono>
#include <future>
#include <system_error>

#include "base/concat.h"
#include "base/ending.h"
#include "base/log.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// The machine that serves the store may be unreachable, and requests to it would wait long; it gets even less time if
// it was silent before.
constexpr std::chrono::milliseconds kTellTime(400), kTellSilentTime(100);
constexpr const char* kLeft = "job/num_left";

}  // namespace

JobWatch::JobWatch(std::shared_ptr<KeyValueStore> store, int rank, int64_t grace_ms, bool speaks)
    : store_(std::move(store)),
      rank_(rank),
      own_end_(concat("job/left/", rank)),
      grace_ms_(grace_ms),
      speaks_(speaks),
      thread_([this] { listen(); }) {}

JobWatch::~JobWatch() {
  end();
  thread_.join();
}

void JobWatch::end() {
  leave();
  if (std::exchange(has_ended_, true)) return;
  try {
    store_->set(own_end_, "");
    leave_job(*store_);
  } catch (const std::exception&) {  // the store is lost, which the thread has noticed, or unreachable
    is_cut_off_ = store_->is_silent();
  }
}

void JobWatch::leave() {
  {
    const std::lock_guard lock(mutex_);
    has_left_ = true;
  }
  left_.notify_one();
}

void leave_job(KeyValueStore& store) {
  store.add(kLeft, 1);
}

void wait_until_left(KeyValueStore& store, int num_ranks, int64_t timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (store.add(kLeft, 0) < num_ranks && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

bool JobWatch::tell(const Failure& failure) {
  // First: the watch thread must not end the process while the report is on its way.
  leave();
  const auto time = store_->is_silent() ? kTellSilentTime : kTellTime;
  // A request to a machine that vanished cannot be taken back, so a thread of its own makes it, and may be left
  // waiting: all that it uses is shared with it.
  const auto told = std::make_shared<std::promise<bool>>();
  const auto report = [store = store_, failure, told] {
    try {
      report_failure(*store, failure);
      told->set_value(true);
    } catch (const std::exception&) {
      told->set_value(false);
    }
  };
  std::future<bool> answer = told->get_future();
  try {
    std::thread(report).detach();
  } catch (const std::system_error&) {  // no thread can be started
    report();
  }
  is_cut_off_ = answer.wait_for(time) != std::future_status::ready;
  return !is_cut_off_ && answer.get();
}

void JobWatch::listen() {
  try {
    store_->get(own_end_, kLongestGetMs);
  } catch (const std::exception& reason) {
    is_over_ = true;
    end_process(reason);
  }
}

void JobWatch::end_process(const std::exception& reason) {
  {
    std::unique_lock lock(mutex_);
    if (left_.wait_for(lock, std::chrono::milliseconds(grace_ms_), [this] { return has_left_; })) return;
  }
  const Failure failure = failure_of(reason);
  tell(failure);
  write_torchelastic_error(failure);
  if (speaks_) print_error(concat("rank ", rank_, " ends: ", reason.what()));
  host::end_process(1);  // past all destructors, which may wait for other threads
}

}  // namespace tessera::host
