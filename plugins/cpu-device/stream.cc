// A stream is a queue and one thread that empties it.
//
//     submit (any thread)          worker
//     lock, push, notify           wait for work; pop; unlock; run; lock; note the error; count; notify
//
// The error is the stream's state: once it is set, all work but records is skipped, so the queue drains at once and
// synchronize returns. A wait blocks the worker, which is why each stream has a thread of its own; an idle stream costs
// a sleeping thread, and none before its first work. num_submitted_ and num_done_ let synchronize wait for what was
// submitted before it and not for what others submit meanwhile.
#include "cpu-device/stream.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "cpu-device/threads.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

constexpr int64_t kMaxTimeoutMs = int64_t{1} << 40;  // what the clock can add without overflow

/// The stream's name tells whose function it may be: "comm.dp.gradient".
tsr_status run_host_function(const HostCallback& call, const std::string& stream, tsr_error& error) noexcept {
  const tsr_status status = call.function(call.user, &error);
  if (status != TSR_OK && error.message[0] == '\0')
    fill_error(&error, status, kName,
               "a host function on the stream " + stream + " failed with status " + std::to_string(status) +
                   " and gave no message");
  error.code = status;
  return status;
}

}  // namespace

Stream::Stream(std::string_view name, int num_threads) : name_(name), num_threads_(num_threads) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  submitted_.notify_one();
  if (worker_.joinable()) worker_.join();
}

std::optional<tsr_error> Stream::synchronize(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const uint64_t target = num_submitted_;
  const auto timeout = std::chrono::milliseconds(std::clamp(timeout_ms, int64_t{0}, kMaxTimeoutMs));
  const auto is_reached = [&] {
    if (num_done_ >= target) return true;
    awaited_ = std::min(awaited_, target);
    return false;
  };
  if (!done_.wait_for(lock, timeout, is_reached))
    throw Error(TSR_E_DEADLINE, "stream " + name_ + ": " + std::to_string(target - num_done_) + " of " +
                                    std::to_string(target) + " operations still pending after " +
                                    std::to_string(timeout_ms) + " ms");
  return error_;
}

void Stream::record(DeviceEvent& event) {
  const auto& state = static_cast<Event&>(event).state();
  submit(Record{state, state->begin_record()});
}

void Stream::wait(DeviceEvent& event) {
  const auto& state = static_cast<Event&>(event).state();
  submit(Wait{state, state->last_record()});
}

void Stream::copy(void* dst, const void* src, uint64_t num_bytes) {
  submit(Copy{dst, src, num_bytes});
}

void Stream::fill(void* dst, uint8_t byte, uint64_t num_bytes) {
  submit(Fill{dst, byte, num_bytes});
}

void Stream::host_function(tsr_host_function function, void* user) {
  submit(HostCallback{function, user});
}

void Stream::launch(std::shared_ptr<Kernel> kernel, std::span<void* const> pointers) {
  submit(Launch{std::move(kernel), Pointers(pointers)});
}

void Stream::submit(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (!worker_.joinable()) worker_ = start_thread([this] { work_until_closed(); });
    queue_.push(std::move(work));
    ++num_submitted_;
  }
  submitted_.notify_one();
}

// The thread has the stream's name, cut to the 15 characters that Linux keeps: debuggers and profilers show
// "comm.dp.gradient".
void Stream::work_until_closed() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  omp_set_num_threads(num_threads_);  // for libraries that ask OpenMP; our kernels name their team
  std::unique_lock lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::optional<tsr_error> error;
    {
      Work work = queue_.pop();
      lock.unlock();
      error = run(work);
    }  // what the work kept alive ends here, outside the lock
    lock.lock();
    if (error && !error_) error_ = error;
    ++num_done_;
    if (num_done_ < awaited_) continue;
    awaited_ = UINT64_MAX;  // those that wait for more say so again
    done_.notify_all();
  }
}

// Records come first: they complete on a failed stream too. Whatever a kernel throws ends here, as the stream's error.
std::optional<tsr_error> Stream::run(Work& work) noexcept {
  if (const auto* record = std::get_if<Record>(&work)) {
    record->event->complete(record->record, error_);
    return std::nullopt;
  }
  if (error_) return std::nullopt;
  if (const auto* wait = std::get_if<Wait>(&work)) return wait->event->wait(wait->record);

  tsr_error error{};
  tsr_status status = TSR_OK;
  if (const auto* copy = std::get_if<Copy>(&work)) {
    if (copy->num_bytes > 0) std::memcpy(copy->dst, copy->src, copy->num_bytes);
  } else if (const auto* fill = std::get_if<Fill>(&work)) {
    if (fill->num_bytes > 0) std::memset(fill->dst, fill->byte, fill->num_bytes);
  } else if (const auto* call = std::get_if<HostCallback>(&work)) {
    status = run_host_function(*call, name_, error);
  } else if (const auto* launch = std::get_if<Launch>(&work)) {
    status = guard(&error, kName, [&] { launch->kernel->run(launch->pointers.data()); });
  }
  return status == TSR_OK ? std::nullopt : std::optional(error);
}

}  // namespace tessera::cpu
