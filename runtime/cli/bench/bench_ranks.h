// The ranks of a benchmark: threads, processes that this one starts, or processes that a launcher has started.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/rank_environment.h"
#include "train/rank_info.h"

namespace tessera::host {

/// How they run.
struct BenchRanks {
  int num_ranks = 1;
  bool are_threads = false;  ///< the communicator keeps all ranks in one process
  bool is_insecure = false;  ///< --insecure
  int64_t start_timeout_ms = 60'000, timeout_ms = 60'000;
  const std::vector<std::string>* argv = nullptr;  ///< of this process, for the processes that it starts
};

/// Runs `body` for every rank in this process, and returns the exit code of the job. Throws what such a rank throws,
/// and UsageError for ranks that are threads under a launcher.
int run_bench_ranks(const BenchRanks& ranks, const RankEnvironment& environment, const Log& log,
                    const std::function<void(const RankInfo& info)>& body);

}  // namespace tessera::host
