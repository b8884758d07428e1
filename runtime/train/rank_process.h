// This process as one rank of a job whose ranks are processes.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "launch/failure.h"
#include "launch/job_store.h"
#include "launch/job_watch.h"
#include "train/rank_info.h"

namespace tessera::host {

/// From joining the job's store to the exit code. A failure is reported to the other ranks, which then end at once, and
/// once to the user: by our launcher if there is one, else by rank 0 in one block, and by every rank in its own log.
class RankProcess {
 public:
  explicit RankProcess(const RankEnvironment& environment);
  /// Our launcher started this process and reports failures to the user.
  bool is_launched() const { return is_launched_; }

  /// Joins the job and runs `body`, which calls note_step() of the watch after each step. Returns the exit code.
  /// `reply_ms`: a store that does not answer for this long counts as unreachable.
  int run(int64_t start_timeout_ms, int64_t reply_ms, const Log& log,
          const std::function<void(const RankInfo&, JobWatch&)>& body);

  /// For a rank that fails before it could join: reports to the user, then to the other ranks, waiting up to ten
  /// seconds for them. Without `may_meet` it does not contact them: without a secret, ranks on several machines do not
  /// connect. Returns the exit code.
  int fail_before_joining(const std::exception& error, bool may_meet);

 private:
  JobStore join(int64_t timeout_ms, int64_t reply_ms, const Log& log);
  RankInfo info(const JobStore& job, const JobWatch& watch) const;
  bool join_and_tell(const Failure& failure);
  int leave(const JobStore& job, const std::optional<Failure>& failure, bool was_told);
  int conclude(const JobStore& job, const Failure& failure, bool was_told);
  std::vector<RankEnd> collect(KeyValueStore& store, const Failure& own);
  void note_lost(const Participant& who);

  const RankEnvironment& environment_;
  const bool is_launched_;
  std::mutex mutex_;
  std::vector<Participant> lost_;  // guarded by mutex_; filled on the rank that serves the store
};

}  // namespace tessera::host
