// Starts the ranks of a job on this machine as processes and watches them; none outlives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"

namespace tessera::host {

struct LaunchRequest {
  std::string executable;              ///< path; every rank runs it
  std::vector<std::string> arguments;  ///< all of argv
  int num_ranks = 1;
  std::string log = {};              ///< for rank 0's record: what was logged before the ranks were started
  bool asks_to_save = false;         ///< SIGUSR1 came before the ranks were started, and is passed on
  bool has_steps = true;             ///< else the first SIGTERM or SIGINT ends the job, and SIGUSR1 changes nothing
  bool ranks_say_when_done = false;  ///< one that exits with 0 has failed if it has not set Ending::has_finished
  int64_t grace_ms = 450;            ///< from a rank's failure to SIGTERM for those that have not ended by themselves
  int64_t finish_ms = 100'000;       ///< the same, from the first rank's success
  int64_t signal_grace_ms = 5'000;   ///< the same, from a signal that ends the job at once
  int64_t kill_ms = 100;             ///< from SIGTERM to SIGKILL
};

struct LaunchResult {
  int exit_code = 0;
  std::string failure;  ///< failure_block(); empty when nothing failed, or a signal ended the job
};

/// The key of LaunchRequest::log in the job's store.
inline constexpr const char* kLauncherLog = "launcher/log";

/// The path of this program's own file. Throws UNAVAILABLE where /proc is not mounted, from which that is read.
std::string own_executable();

/// Serves the job's key-value store on loopback, starts the ranks with TESSERA_RANK, _WORLD_SIZE, _LOCAL_RANK,
/// _LOCAL_SIZE, _STORE_ADDR, _STORE_SERVED, _JOB_SECRET and _ENDINGS_FILE in their environment, and waits for all of
/// them.
///
/// The exit code is 0 when all ranks exit with 0. When a rank fails or reports that it fails, the store is closed,
/// which makes the others end, and the exit code is that of first_cause() (1 if a signal killed it).
///
/// Ranks that have steps get SIGTERM and SIGINT and stop after a step, for which is waited without a limit; SIGUSR1
/// goes to one of them, which has the others save too. A second signal to stop, from kOneRequest on, kills the ranks.
/// For ranks without steps the first of them is as other signals, and SIGUSR1 is dropped. Other signals of
/// kEndingSignals are passed on and end the job: the exit code is then 128 + n. The ranks die with this process,
/// whatever ends it.
///
/// Throws UNAVAILABLE when a rank cannot be started, and RESOURCE_EXHAUSTED before that when the limit of open files is
/// too low. Call it on the main thread, before other threads exist: it blocks the signals it handles until it returns.
/// [control-thread]
LaunchResult launch_ranks(const LaunchRequest& request, const Log& log);

}  // namespace tessera::host
