// Checkpoints of a run: all ranks write what they own, and one gives the whole its name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "checkpoint/held_state.h"
#include "checkpoint/index.h"
#include "data/dataset.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "train/rank_info.h"

namespace tessera::host {

/// What index.json says of the job.
RunDescription describe_run(const Job& job, const Dataset& data);
/// How long ranks wait for one another while state is read or written: --timeout-ms, and the time that a disk of 10
/// MB/s takes for all of it.
int64_t state_timeout_ms(const Job& job);

/// Saves into --save; does nothing without it. Collective: every rank calls every function after the same steps.
/// [control-thread]
class CheckpointSaver {
 public:
  /// Borrows its arguments. Throws, on all ranks alike, UNAVAILABLE when the folder cannot be made, or is not the same
  /// for all ranks that write.
  CheckpointSaver(const Job& job, const RunData& data, const RankInfo& info, RankRuntime& runtime, const Log& log);

  bool is_on() const { return !folder_.empty(); }
  /// Whether --save-every asks for a checkpoint after that step.
  bool is_due(int64_t step) const;
  /// The step of the last checkpoint that succeeded; 0: none yet.
  int64_t last_saved() const { return last_saved_; }

  /// Saves the state between two steps; optimizer_step is filled in. When it fails, rank 0 warns with file and reason,
  /// what was written is removed, and the run may go on. Throws only when the ranks cannot meet.
  SaveMetrics save(RunState state);

 private:
  std::string all_do(const std::string& what, const std::function<void()>& work);
  void write_own_part(const std::string& path);
  void put_together(const RunState& state);
  std::string part_key(int rank) const;
  void check_folder();
  void report(const SaveMetrics& metrics) const;

  const Job& job_;
  const RankInfo& info_;
  RankRuntime& runtime_;
  const Log& log_;
  const std::string folder_;
  RunDescription run_;
  std::vector<HeldTensor> held_;
  std::vector<std::vector<uint64_t>> shapes_;  // of whole parameters
  int num_attempts_ = 0;                       // equal on all ranks: makes their questions unique
  int64_t last_saved_ = 0;
  uint64_t num_bytes_ = 0;  // of the last checkpoint
};

}  // namespace tessera::host
