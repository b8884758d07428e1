// A mark is a timestamp of the device, or a host function where it has none, as of streams of the host beside a GPU.
// They add two operations per action, only in runs that are recorded:
//
//     stream     wait ... | mark begin | the action | mark end | record
//
// Host functions would do on a GPU too, but hold a stream up for some 30 us each: the steps of GPT-2 124M took 1.6
// times as long with them.
//
// An action's time includes neither its waits for other streams nor the checks of --debug-memory. That of a
// collective includes its wait for the other ranks.

#include "exec/record/step_times.h"

#include <ctime>

#include "base/concat.h"
#include "guard/known_functions.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kClockErrorNs = 1'000 * kMs;  // far more than two clocks may differ by

tsr_status note_time(void* time_ns, tsr_error*) noexcept {
  *static_cast<int64_t*>(time_ns) = monotonic_ns();
  return TSR_OK;
}

}  // namespace

int64_t monotonic_ns() {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

StepMarks::StepMarks(const Device& device, size_t num_actions)
    : device_(device), num_actions_(num_actions), api_(device.table<tsr_device_timestamps>(TSR_DEVICE_TIMESTAMPS)) {
  if (api_) timestamps_ = made_by<tsr_timestamps>(api_->create, device.handle(), 2 * num_actions);
}

StepMarks::~StepMarks() {
  if (api_) end_with(api_->destroy, timestamps_);
}

void StepMarks::begin(StepTimes& times) {
  times_ = &times;
  times.actions.assign(num_actions_, {});
  times.begin_ns = monotonic_ns();
}

void StepMarks::mark_begin(const RankStream& stream, size_t action) {
  mark(stream, 2 * action, times_->actions[action].begin_ns);
}

void StepMarks::mark_end(const RankStream& stream, size_t action) {
  mark(stream, 2 * action + 1, times_->actions[action].end_ns);
}

void StepMarks::mark(const RankStream& stream, size_t index, int64_t& time_ns) {
  if (api_ && stream.device == &device_)
    call(api_->write, timestamps_, stream.handle, index);
  else
    call(stream.api().host_function, stream.handle, &note_time, &time_ns);
}

void StepMarks::end() {
  times_->end_ns = monotonic_ns();
  if (api_) read();
  check();
}

void StepMarks::read() {
  std::vector<int64_t> noted(2 * num_actions_);
  call(api_->read, timestamps_, noted.data());
  for (size_t i = 0; i < num_actions_; ++i) {
    ActionTime& time = times_->actions[i];
    if (noted[2 * i] != 0) time.begin_ns = noted[2 * i];
    if (noted[2 * i + 1] != 0) time.end_ns = noted[2 * i + 1];
  }
}

void StepMarks::check() const {
  for (size_t i = 0; i < num_actions_; ++i) {
    const ActionTime& time = times_->actions[i];
    if (!api_ && (time.begin_ns == 0 || time.end_ns == 0))
      end_by_early_ok(device_, "a host function that notes the time had not run");
    if (times_->begin_ns - kClockErrorNs <= time.begin_ns && time.begin_ns <= time.end_ns &&
        time.end_ns <= times_->end_ns + kClockErrorNs)
      continue;
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(api_ ? api_->read : nullptr)), " returned the times ",
                                       time.begin_ns, " and ", time.end_ns, " ns for the begin and the end of action ",
                                       i, " of a run from ", times_->begin_ns, " to ", times_->end_ns, " ns"));
  }
}

}  // namespace tessera::host
