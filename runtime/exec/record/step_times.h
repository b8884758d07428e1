// When the actions of one run began and ended.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/device.h"

namespace tessera::host {

/// Nanoseconds of CLOCK_MONOTONIC, which is one clock for all processes of a host. [any-thread]
int64_t monotonic_ns();

struct ActionTime {
  int64_t begin_ns = 0, end_ns = 0;  ///< 0: it did not run
};

/// Of a run that ended without an error. Between begin() and end() the streams write `actions`.
struct StepTimes {
  int64_t begin_ns = 0, end_ns = 0;  ///< of the run on the thread that issues
  std::vector<ActionTime> actions;   ///< by index in the program

  void begin(size_t num_actions);
  void end();
};

/// Work on the stream that sets `time_ns` to the time at which the stream has come there. A CPU stream does it in well
/// under a microsecond; on a GPU it is a host function, which holds the stream up for some microseconds. `time_ns`
/// lives until the stream has done it. Throws what the device throws. [issue-thread]
void mark(const RankStream& stream, int64_t& time_ns);

}  // namespace tessera::host
