// Why a job failed: what each rank told before it ended, how its process ended, and whose fault it was.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/key_value_store.h"
#include "launch/participant.h"
#include "tessera/core.h"

namespace tessera::host {

/// "rank 3 (process 733 on node1)"; without what is not known.
std::string rank_name(const Participant& who);

/// What a rank says when it fails.
struct Failure {
  Participant who;
  int32_t code = TSR_E_INTERNAL;  ///< TSR_E_*
  int about = -1;                 ///< the world rank that the sentence is about; -1: no other rank
  int64_t step = 0;               ///< the last step that it finished; 0: none
  int exit_code = 1;
  std::string sentence;

  /// It tells of another rank's failure, or that it was told to end, and is not to blame itself.
  bool is_echo() const;
};

/// The failure of this process as `rank` after `step` steps. Exit code 2 for a UsageError, else 1.
Failure make_failure(const std::exception& error, int rank, int64_t step);

/// Puts the failure where the others and read_failures() find it, and closes the store with its sentence. Throws what
/// the store throws.
void report_failure(KeyValueStore& store, const Failure& failure);

/// How the process of a rank ended, as far as is known.
struct RankEnd {
  enum class How { finished, running, exited, killed, lost };

  Participant who;
  How how = How::running;
  int value = 0;                   ///< exited: the exit code; killed: the signal
  int order = 0;                   ///< of ends that were noticed: which came first
  bool was_ended = false;          ///< by the launcher, because the job had failed
  bool was_stopped = false;        ///< it was stopped (SIGSTOP, a debugger) when it was ended
  std::optional<Failure> failure;  ///< what it said itself
  int failure_order = 0;           ///< which of the failures was told first; counts from 1
};

/// Puts into each end what its rank told the store.
void read_failures(KeyValueStore& store, std::vector<RankEnd>& ends);

/// The rank with which it began, in this order: killed by a signal or lost without a word; failed by itself; stopped
/// while others missed it; ended without a word; missed by others and silent; the first that said anything; did not end
/// with the others. -1: none failed.
int first_cause(std::span<const RankEnd> ends);
/// Its exit code: what the whole job ends with.
int exit_code_of(const RankEnd& cause);
/// One line on what befell that rank: "killed by signal 9 (Killed)".
std::string cause_text(const RankEnd& end);

/// All that is known, as lines: the cause, who only reported it, who was ended. `ends` has a cause.
std::string failure_block(std::span<const RankEnd> ends);

}  // namespace tessera::host
