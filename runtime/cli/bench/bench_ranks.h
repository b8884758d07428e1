// The ranks of a benchmark: threads, processes that this one starts, or processes that a launcher has started.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/rank_environment.h"
#include "train/rank_info.h"

namespace tessera::host {

/// What runs them.
struct BenchRanks {
  int num_ranks = 1;
  bool are_threads = false;  ///< the communicator keeps all ranks in one process
  bool is_insecure = false;  ///< --insecure
  int64_t start_timeout_ms = 60'000, timeout_ms = 60'000;
  const std::vector<std::string>* argv = nullptr;  ///< of this process, for those that it starts
};

/// Runs `body` as every rank of them that this process is, and returns the exit code of the job. Throws what a rank of
/// this process throws, and UsageError for threads under a launcher.
int run_bench_ranks(const BenchRanks& ranks, const RankEnvironment& environment, const Log& log,
                    const std::function<void(const RankInfo& info)>& body);

}  // namespace tessera::host
