// When the actions of one run began and ended.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/device.h"

namespace tessera::host {

/// Nanoseconds of CLOCK_MONOTONIC, which is one clock for all processes of a host. [any-thread]
int64_t monotonic_ns();

struct ActionTime {
  int64_t begin_ns = 0, end_ns = 0;
};

/// Of a run that ended without an error.
struct StepTimes {
  int64_t begin_ns = 0, end_ns = 0;  ///< of the run, on the issue thread
  std::vector<ActionTime> actions;   ///< by index in the program
};

/// Notes when the actions of a program begin and end. Throws what the device throws.
class StepMarks {
 public:
  /// For runs of `num_actions` actions. Streams of `device` are timed by the device where it has timestamps. Borrows
  /// it. [control-thread]
  StepMarks(const Device& device, size_t num_actions);
  ~StepMarks();
  StepMarks(const StepMarks&) = delete;
  StepMarks& operator=(const StepMarks&) = delete;

  /// A run begins, whose times go to `times`: until end() the streams write there. [control-thread]
  void begin(StepTimes& times);
  /// The stream has got to the action, or has done it. [issue-thread]
  void mark_begin(const RankStream& stream, size_t action);
  void mark_end(const RankStream& stream, size_t action);
  /// The run has ended: `times` is complete. Throws INTERNAL if the device has noted times that are not of this run.
  /// Each action was marked. [control-thread]
  void end();

 private:
  void mark(const RankStream& stream, size_t index, int64_t& time_ns);
  void read();
  void check() const;

  const Device& device_;
  const size_t num_actions_;
  const tsr_device_timestamps* const api_;  // null: the device has none
  tsr_timestamps* timestamps_ = nullptr;    // 2 i: the begin of action i; 2 i + 1: its end
  StepTimes* times_ = nullptr;              // of the run
};

}  // namespace tessera::host
