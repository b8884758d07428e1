// Where ranks make sure that they run the same job.
#pragma once

#include "compile/compile.h"
#include "data/dataset.h"
#include "train/train_rank.h"

namespace tessera::host {

/// Compares configuration, plugins, model, weights, data and environment over all ranks; throws naming what differs on
/// whom. Of weights and data: sizes and contents, of large ones a part (weight_files.h, token_source.h); not where the
/// ranks are threads, which read the same files.
void check_job_consistency(const Job& job, const Dataset& data, const RankInfo& info, int num_threads, const Log& log);

/// This rank's programs, compiled once and agreed on. Rank 0 plans one rank of each class, checks all ranks against one
/// another and against --device-memory, publishes hash and text, and runs the programs that it checked; every other
/// rank compares its own and throws, with the first line that differs, when a strategy did not plan the same here as
/// there.
RankPrograms check_program_consistency(const Job& job, const CompileInput& input, const RankInfo& info);

/// The least of all ranks' answers that are not empty, or empty; each asks, and no question twice. Throws DEADLINE when
/// one does not, and names those that are missing.
std::string lowest_answer(const RankInfo& info, int num_ranks, const std::string& question,
                          const std::string& own_answer, int64_t timeout_ms);
/// Whether all ranks say yes; as lowest_answer.
bool all_ranks_agree(const RankInfo& info, int num_ranks, const std::string& question, bool own_answer,
                     int64_t timeout_ms);

/// Returns when all ranks have come here, to `purpose` ("end"); throws DEADLINE with the ranks that are missing.
void barrier(const RankInfo& info, int num_ranks, const std::string& purpose, int64_t timeout_ms, const Log& log);

}  // namespace tessera::host
