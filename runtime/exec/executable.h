// A program made ready to run: kernels prepared, addresses resolved, events made. Running it allocates nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "exec/command.h"
#include "exec/execution_context.h"
#include "exec/graph.h"
#include "exec/record/step_times.h"
#include "exec/watch/progress_clock.h"
#include "memory/memory_plan.h"
#include "program/state_place.h"

namespace tessera::host {

/// Elements that an action writes.
struct Write {
  size_t action = 0;
  Binding range;
};

class Executable {
 public:
  /// Prepares `program`; it, its memory plan and the context outlive this. [control-thread]
  Executable(const Program& program, const MemoryPlan& memory, ExecutionContext& context);
  Executable(const Executable&) = delete;

  /// Issues the whole program in list order and waits for its end. When an action fails, or `cancelled` (called about
  /// once a second) returns true, aborts all communicators, waits for everything outstanding, closes all streams and
  /// throws the first error; nothing may run on this rank afterwards. A step that can be captured as a graph is
  /// captured for its second run, and launched as one from then on. With `times` it runs without a graph, and records
  /// there when each action began and ended. [control-thread]
  void run(const std::function<bool()>& cancelled, StepTimes* times = nullptr);
  /// From now on calls `before` in each run, on the thread that issues, before an action may write to a buffer
  /// of these places: before the first that does is issued, or before the launch of a graph. [control-thread]
  void call_before_writing(std::span<const StatePlace> places, std::function<void()> before);
  /// From now on a run with `takes_sums` computes the crc32c of each of these writes, right after its action; such a
  /// run does not use the graph. Allocates device memory. Call once. [control-thread]
  void sum_writes(std::span<const Write> writes);
  void set_takes_sums(bool takes_sums) { takes_sums_ = takes_sums; }
  /// The sums of the last run that computed them, in the order of sum_writes. [control-thread]
  std::vector<uint32_t> write_sums() const;
  /// Whether runs without `times` launch a graph from now on. [control-thread]
  bool is_graph() const { return graph_.has_value(); }
  /// With DebugOptions::check_memory: the index of the first action in the last run that wrote a value that is not
  /// finite. [control-thread]
  std::optional<size_t> first_not_finite() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  using Cancelled = std::function<bool()>;
  void load_kernels() const;
  void issue(size_t action, StepMarks* marks);
  void issue_work(Command& command);
  void take_sums(Command& command);
  void issue_all(const Cancelled& cancelled, StepMarks* marks, ProgressClock* progress);
  const CrossDeviceSync* unsignaled_sync(const Command& command) const;
  void wait_until_signaled(const CrossDeviceSync& sync, const Cancelled& cancelled);
  void capture(const Cancelled& cancelled);
  void finish(const Cancelled& cancelled, bool is_graph);
  void check_deadline(Clock::time_point start) const;
  void stop_after_error();

  const Program& program_;
  const MemoryPlan& memory_;
  ExecutionContext& context_;
  std::atomic<size_t> first_not_finite_{kNone};  // position; set by streams
  Commands commands_;
  size_t first_write_ = kNone;  // position of the action before which before_write_ is called
  std::function<void()> before_write_;
  std::vector<WriteSum> write_sums_;     // of sum_writes
  std::map<tsr_stream*, Arena> summed_;  // memory of the host for what a stream has written
  bool takes_sums_ = false;
  bool has_run_ = false;
  bool has_tried_capture_ = false;
  Clock::duration longest_run_{0};  // without a graph
  ProgressClock progress_;          // likewise
  std::optional<Graph> graph_;
  std::optional<StepMarks> marks_;  // from the first run that is recorded on
};

}  // namespace tessera::host
