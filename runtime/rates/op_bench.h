// The time that each op of a step takes on a device.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "exec/device.h"
#include "exec/record/step_times.h"
#include "program/program.h"
#include "rates/kernel_load.h"
#include "rates/op_memory.h"
#include "rates/rates.h"

namespace tessera::host {

/// Measures the ops of one program, each shape once. Borrows device and program. All functions: [control-thread].
class OpBench {
 public:
  /// Which of the program's ops: the device's, or those of the host, which `device` then is.
  enum class Where { device, host };
  OpBench(const Device& device, const Program& program, Where where);
  bool is_empty() const { return ops_.empty(); }

  /// The mean of several rounds over all ops, in the order of the program.
  std::vector<OpRate> measure(Progress* progress);

  /// The op that takes most of the step. Call it after measure(); it borrows this object.
  KernelLoad load() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Op {
    OpRate rate;
    uint64_t num_times = 0;  ///< in the step
    bool is_update = false;
    KernelHandle kernel;
    std::vector<void*> pointers;
    double seconds = 0;  ///< of all rounds
  };

  void prepare(const Action& action, Op& op) const;
  void launch(size_t i);
  /// All ops once; held back until all of them are issued, so that none waits for its launch.
  void run_round(bool is_held);
  const Op& largest() const;

  const Device& device_;
  const Program& program_;
  std::vector<Op> ops_;
  std::unique_ptr<OpMemory> memory_;
  StreamHandle stream_;
  std::unique_ptr<StepMarks> marks_;  // of ops_, as of actions
  StepTimes times_;                   // of the last round
};

}  // namespace tessera::host
