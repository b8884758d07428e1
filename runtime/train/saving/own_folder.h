// Whose checkpoints --save has: those of the run that goes on there, or of another one.
#pragma once

#include "config/train_config.h"

namespace tessera::host {

/// Whether --resume asks for a checkpoint that need not be there: it names the folder of --save, which has none yet. So
/// the command that starts a run goes on with it, too.
bool may_start_anew(const TrainConfig& config);
/// Whether --resume goes on with a run of the folder of --save.
bool resumes_in_its_folder(const TrainConfig& config);

/// Throws UsageError where --save has checkpoints of a run that this one does not continue, unless --overwrite allows
/// it. Asked before the job starts, and again once the folder is locked.
void require_no_other_run(const TrainConfig& config);

}  // namespace tessera::host
