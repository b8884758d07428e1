// Why a job failed: what each rank reported before it ended, how its process ended, and which rank was the cause.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/key_value_store.h"
#include "launch/participant.h"
#include "tessera/core.h"

namespace tessera::host {

/// "rank 3 (process 733 on node1)", or "rank 3" when its process is not known.
std::string rank_name(const Participant& who);

/// What a rank reports when it fails.
struct Failure {
  Participant who;
  int32_t code = TSR_E_INTERNAL;  ///< TSR_E_*
  int about = -1;                 ///< the world rank that the sentence is about; -1: none
  int64_t step = 0;               ///< the last step that the rank finished; 0: none
  int exit_code = 1;
  std::string sentence;

  /// The failure only follows from another rank's: it is about that rank, or the rank was told to end.
  bool is_echo() const;
};

/// The failure of this process as `rank` after `step` steps. Exit code 2 for a UsageError, else 1.
Failure make_failure(const std::exception& error, int rank, int64_t step);

/// Puts the failure into the store, for the other ranks and read_failures(), and closes the store with its sentence.
/// Throws what the store throws.
void report_failure(KeyValueStore& store, const Failure& failure);

/// How the process of a rank ended, as far as is known.
struct RankEnd {
  enum class How { finished, running, exited, killed, lost };

  Participant who;
  How how = How::running;
  int value = 0;                   ///< exited: the exit code; killed: the signal
  int order = 0;                   ///< by the time when the end was noticed
  bool was_ended = false;          ///< by the launcher, because the job had failed
  bool was_stopped = false;        ///< it was stopped (SIGSTOP, a debugger) when it was ended
  std::optional<Failure> failure;  ///< what the rank reported
  int failure_order = 0;           ///< by the time of the report; counts from 1
};

/// Adds to each end what its rank reported to the store, unless its failure is known already.
void read_failures(KeyValueStore& store, std::vector<RankEnd>& ends);

/// The index of the root cause, or -1 if no rank failed. The first of these that exists:
///   1. killed by a signal, or lost, without a report     4. exited without a report
///   2. reported a failure of its own                     5. others timed out waiting for it
///   3. was stopped while others waited for it            6. the first that reported anything
/// and last, a rank that did not end with the others.
int first_cause(std::span<const RankEnd> ends);
/// The exit code of the job, given its cause.
int exit_code_of(const RankEnd& cause);
/// One line on what happened to that rank: "killed by signal 9 (Killed)".
std::string cause_text(const RankEnd& end);

/// The report for the user, as lines: the cause, the ranks that only reported it, those that were ended. `ends` must
/// have a cause.
std::string failure_block(std::span<const RankEnd> ends, bool has_steps = true);

/// Writes the failure to the file that TORCHELASTIC_ERROR_FILE names, in the format of torch.distributed.elastic, so
/// that torchrun shows its sentence. torchrun takes the earliest failure for the root cause, and dates one without a
/// file when it notices it; so a failure that is_echo() is dated some seconds later. Does nothing without the variable,
/// or when the file cannot be written.
void write_torchelastic_error(const Failure& failure);

}  // namespace tessera::host
