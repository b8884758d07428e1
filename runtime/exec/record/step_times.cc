// Marks are host functions, which every device supports: a stream needs no clock of its own. They add two operations
// per action, only in runs that are recorded:
//
//     stream     wait ... | mark begin | the action | mark end | record
//
// So an action's time includes neither its waits for other streams nor the checks of --debug-memory. That of a
// collective includes its wait for the other ranks.

#include "exec/record/step_times.h"

#include <ctime>

namespace tessera::host {
namespace {

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

void StepTimes::begin(size_t num_actions) {
  actions.assign(num_actions, {});
  begin_ns = monotonic_ns();
}

void StepTimes::end() {
  end_ns = monotonic_ns();
}

void mark(const RankStream& stream, int64_t& time_ns) {
  call(stream.api().host_function, stream.handle, &note_time, &time_ns);
}

}  // namespace tessera::host
