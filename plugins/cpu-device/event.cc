// Events count records: a wait names the record that was the last when it was submitted. That nothing waits when an
// event is recorded again is up to the caller (device.h). A record completes in its place on the stream, also when the
// stream has failed, with the error: so streams that wait wake up and fail too (docs/decisions/0004), and never hang.
#include "cpu-device/event.h"

namespace tessera::cpu {

uint64_t EventState::begin_record() {
  const std::lock_guard lock(mutex_);
  return ++num_begun_;
}

uint64_t EventState::last_record() const {
  const std::lock_guard lock(mutex_);
  return num_begun_;
}

void EventState::complete(uint64_t record, const std::optional<tsr_error>& error) {
  {
    const std::lock_guard lock(mutex_);
    // Records on two streams may complete out of order; the later one counts.
    if (record < num_completed_) return;
    num_completed_ = record;
    error_ = error;
  }
  completed_.notify_all();
}

std::optional<tsr_error> EventState::wait(uint64_t record) {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [&] { return num_completed_ >= record; });
  return record == 0 ? std::nullopt : error_;
}

}  // namespace tessera::cpu
