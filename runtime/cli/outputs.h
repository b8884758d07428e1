// The files that the commands write: `--metrics`, `--svg`, `--rates` and checkpoints.
#pragma once

#include <string>

#include "job/job.h"
#include "train/rank_observer.h"

namespace tessera::host {

/// Throws UsageError when rank 0's metrics cannot be written; other ranks write none.
void check_metrics(const Job& job, int rank);
/// Throws UsageError when rank 0's trace cannot be written, the --profile of a run that has one.
void check_trace(const Job& job, int rank);
/// Throws UsageError when the run cannot be recorded in --out.
void check_record(const Job& job);
/// Throws UsageError when the job cannot save into --save, or would read there what it has saved.
void check_save(const Job& job);
/// Writes metrics and trace during the run, on rank 0. A run that is refused before its first step creates no file and
/// leaves an existing one unchanged.
RankObserver write_outputs(const Job& job, int rank);

/// Throws UsageError when the drawing cannot be written.
void check_svg(const Job& job, const std::string& path);
void write_svg(const Job& job, const std::string& path, const std::string& drawing);

/// Throws UsageError when the rates cannot be written.
void check_rates(const Job& job, const std::string& path);
void write_rates(const Job& job, const std::string& path, const std::string& rates);

}  // namespace tessera::host
