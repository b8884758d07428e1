// Starts the ranks of a job on this machine as processes, watches them, and leaves none behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/log.h"

namespace tessera {

struct LaunchRequest {
  std::string executable;              ///< path; every rank runs it
  std::vector<std::string> arguments;  ///< all of argv
  int num_ranks = 1;
  int64_t grace_ms = 5'000;  ///< after a rank failed, for the others to notice by themselves; then SIGTERM
  int64_t kill_ms = 2'000;   ///< after SIGTERM; then SIGKILL
};

/// The path of this program's own file.
std::string own_executable();

/// Serves the job's key-value store on loopback, starts the ranks with TESSERA_RANK, _WORLD_SIZE, _LOCAL_RANK,
/// _LOCAL_SIZE, _STORE_ADDR, _STORE_SERVED and _JOB_SECRET in their environment, and waits for all of them. Returns 0
/// when all ended with 0; the exit code of the first rank that failed, which is named in the log (1 if a signal killed
/// it); or 128 + n when signal n (SIGINT, SIGTERM) ended the job: it is passed on to the ranks, and a second one kills
/// them. The ranks die with this process, whatever ends it. Throws UNAVAILABLE when a rank cannot be started. Call it
/// on the main thread, before other threads exist: it blocks the signals it handles until it returns. [control-thread]
int launch_ranks(const LaunchRequest& request, const Log& log);

}  // namespace tessera
