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
  int64_t begin_ns = 0, end_ns = 0;  ///< of the run, on the issue thread
  std::vector<ActionTime> actions;   ///< by index in the program

  void begin(size_t num_actions);
  void end();
};

/// Enqueues work that sets `time_ns` to the time at which the stream reaches it. Takes well under a microsecond on a
/// CPU stream; on a GPU it is a host function, which delays the stream by some microseconds. `time_ns` must live until
/// the stream has run it. Throws what the device throws. [issue-thread]
void mark(const RankStream& stream, int64_t& time_ns);

}  // namespace tessera::host
