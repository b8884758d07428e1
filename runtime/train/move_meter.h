// What offload moves in the steps of a rank: as planned between memories, and as counted in files.
#pragma once

#include <cstdint>
#include <vector>

#include "base/metrics.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "plan/moved.h"

namespace tessera::host {

/// Sums over all steps of a rank.
struct MovedInRun {
  MovedBytes planned;            ///< between device memory and where things are kept
  TransferCounts read, written;  ///< of files
  double seconds = 0;            ///< wall time of the steps
};

/// Without offload policies it does nothing. [control-thread]
class MoveMeter {
 public:
  /// Borrows `runtime`. What moved before, as parameters were filled, does not count.
  MoveMeter(const Job& job, const RankRuntime& runtime);

  /// Adds to the metrics what their step moved; call it after each step.
  void measure(StepMetrics& line);
  const MovedInRun& in_run() const { return in_run_; }

 private:
  void measure_files(StepMetrics& line);

  const FileStore* files_;           // null: nothing is kept in files
  std::vector<MovedBytes> planned_;  // by variant of the step; empty without policies
  TransferCounts read_before_, written_before_;
  MovedInRun in_run_;
};

}  // namespace tessera::host
