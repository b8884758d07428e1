// The files that the commands write: `--metrics`, `--svg`, `--rates` and checkpoints.
#pragma once

#include <string>

#include "config/parsed_flags.h"
#include "job/job.h"
#include "train/rank_observer.h"

namespace tessera::host {

/// Throws UsageError where `flag` names a file or folder that would be in a checkpoint: that has its own files alone.
void refuse_inside_checkpoint(const std::string& flag, const std::string& path);

/// Throws UsageError when rank 0's metrics or trace cannot be written, the run cannot be recorded in --out, or the job
/// cannot save into --save; when one of these would replace what the job reads, or be read by the next run; and when
/// two of them are one file.
void check_outputs(const Job& job, const ParsedFlags& flags);
/// Writes metrics and trace during the run, on rank 0. A run that is refused before its first step creates no file and
/// leaves an existing one unchanged.
RankObserver write_outputs(const Job& job, int rank);

/// Throws UsageError when the drawing of --svg cannot be written.
void check_svg(const Job& job, const ParsedFlags& flags);
void write_svg(const Job& job, const std::string& path, const std::string& drawing);

/// Throws UsageError when the rates of --rates cannot be written.
void check_rates(const Job& job, const ParsedFlags& flags);
void write_rates(const Job& job, const std::string& path, const std::string& rates);

}  // namespace tessera::host
