// A program made ready to run: kernels prepared, addresses resolved, events made. Running it allocates nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/cross_device_sync.h"
#include "exec/execution_context.h"
#include "exec/graph.h"
#include "memory/memory_plan.h"

namespace tessera::host {

class Executable {
 public:
  /// Prepares `program`; it, its memory plan and the context outlive this. [control-thread]
  Executable(const Program& program, const MemoryPlan& memory, ExecutionContext& context);
  ~Executable();
  Executable(const Executable&) = delete;

  /// Issues the whole program in list order and waits for its end. When an action fails, or `cancelled` (asked about
  /// once a second) says so, all communicators are aborted, everything outstanding is waited for, all streams are
  /// closed, and the first error is thrown; nothing may run on this rank afterwards. A step that can be captured is,
  /// before its second run, and from then on runs as a graph. [control-thread]
  void run(const std::function<bool()>& cancelled);
  /// With DebugOptions::check_memory: the first action, in list order, of the last run that wrote a value that is not
  /// finite. [control-thread]
  std::optional<size_t> first_not_finite() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  struct Step;
  struct Preparation;
  using Cancelled = std::function<bool()>;
  void load_kernels() const;
  void issue(Step& step);
  void issue_all(const Cancelled& cancelled);
  const CrossDeviceSync* closed_gate(const Step& step) const;
  void wait_until_open(const CrossDeviceSync& crossing, const Cancelled& cancelled) const;
  void capture(const Cancelled& cancelled);
  void finish(const Cancelled& cancelled);
  void check_deadline(Clock::time_point start) const;
  void stop_after_error();

  const Program& program_;
  ExecutionContext& context_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<KernelHandle> kernels_;
  std::vector<EventHandle> events_;
  std::map<tsr_stream*, Arena> seen_;  // debug: what watches copy to
  std::vector<std::unique_ptr<CrossDeviceSync>> crossings_;
  std::vector<RankStream> streams_;              // used by the program, by first use
  std::atomic<size_t> first_not_finite_{kNone};  // set by streams
  uint64_t num_runs_ = 0;
  Clock::duration longest_run_{0};  // without a graph
  std::optional<Graph> graph_;
};

}  // namespace tessera::host
