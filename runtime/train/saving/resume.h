// How a run begins from a checkpoint.
#pragma once

#include <optional>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/index.h"
#include "data/dataset.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "train/rank_info.h"

namespace tessera::host {

/// Checks --save, --resume and --init-from before anything starts, as far as one process can without reading tensors.
/// Throws UsageError: no checkpoint, another model, another optimizer, checkpoints of another run, or what has the name
/// of one, where this one would save; and what Checkpoint throws for a damaged one that was given itself.
void check_checkpoints(const Job& job);

/// Fills the homes from --resume or --init-from, each rank what it holds, and runs `init`. Of a folder of --save the
/// newest checkpoint that all ranks can read is taken; rank 0 warns of each that is passed over. Returns where the run
/// was; nothing with --init-from, whose run begins at step 1, and where --resume has nothing to go on from: then homes
/// are not filled either, unless it was --init-from. Collective. Throws, on all ranks, the lowest rank's error.
struct LoadedRun {
  bool is_filled = false;
  std::optional<RunState> state;
  double ms = 0;  ///< until all ranks had read it
};
LoadedRun load_run(const Job& job, const RunData& data, const RankInfo& info, RankRuntime& runtime, const Log& log);

}  // namespace tessera::host
