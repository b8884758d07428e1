// Ranks verify that they run the same job and the programs that rank 0 planned.
#pragma once

#include <string>

#include "compile/compile.h"
#include "job/job.h"
#include "train/rank_info.h"

namespace tessera::host {

/// Compares configuration, plugins, model, weights, data and environment of all ranks. Throws, naming the setting that
/// differs and two ranks. Weights and data are compared by size and contents, large ones by a part of them
/// (weight_files.h, token_source.h); not when ranks are threads, which read the same files.
void check_job_consistency(const Job& job, const RunData& data, const RankInfo& info, int num_threads, const Log& log);

/// Compiles and returns this rank's programs. Rank 0 plans one rank of each class, checks all ranks against one another
/// and against --device-memory, publishes hash and text, and runs the programs that it checked. Every other rank
/// compares its own programs with these and throws, with the first line that differs, if a strategy planned something
/// else. On rank 0 `on_planned` gets the programs when they have passed.
RankPrograms check_program_consistency(
    const Job& job, const CompileInput& input, const RankInfo& info,
    const std::function<void(const JobPrograms&)>& on_planned = [](const JobPrograms&) {});

/// A min-reduction of text over the store: the lowest non-empty answer of all ranks, or empty. Collective; each
/// question may be used once. Throws DEADLINE, naming the ranks that are missing.
std::string lowest_answer(const RankInfo& info, int num_ranks, const std::string& question,
                          const std::string& own_answer, int64_t timeout_ms);
/// Whether the answer of all ranks is true. Like lowest_answer.
bool all_ranks_agree(const RankInfo& info, int num_ranks, const std::string& question, bool own_answer,
                     int64_t timeout_ms);

/// Returns when all ranks have called it. `purpose` completes "waiting for rank 3 to ..." ("end"). Throws DEADLINE,
/// naming the ranks that are missing.
void barrier(const RankInfo& info, int num_ranks, const std::string& purpose, int64_t timeout_ms, const Log& log);

}  // namespace tessera::host
