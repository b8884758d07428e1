// This process as one rank of a job whose ranks are processes.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "launch/failure.h"
#include "launch/job_store.h"
#include "launch/job_watch.h"
#include "train/train_rank.h"

namespace tessera::host {

/// From the job's store to the exit code. Whatever fails is told to the other ranks, which end at once; and to the user
/// once: by the launcher if it is ours, else by rank 0 in one block, and by every rank in a line of its own log.
class RankProcess {
 public:
  explicit RankProcess(const RankEnvironment& environment);
  /// By our launcher, which tells the user what happened.
  bool is_launched() const { return is_launched_; }

  /// Joins the job and runs `body`, which calls note_step() of the watch after each step. Returns the exit code.
  /// `reply_ms`: after which a store that answers nothing is cut off.
  int run(int64_t start_timeout_ms, int64_t reply_ms, const Log& log,
          const std::function<void(const RankInfo&, JobWatch&)>& body);

  /// The rank fails before it could join: tells the user, then the others, for whom it waits up to ten seconds. They
  /// are not told unless `may_meet`: without a secret ranks of several machines do not meet at all. Returns the exit
  /// code.
  int fail_before_joining(const std::exception& error, bool may_meet);

 private:
  JobStore join(int64_t timeout_ms, int64_t reply_ms, const Log& log);
  RankInfo place(const JobStore& job, const JobWatch& watch) const;
  bool join_and_tell(const Failure& failure);
  int leave(const JobStore& job, const std::optional<Failure>& failure, bool was_told);
  int conclude(const JobStore& job, const Failure& failure, bool was_told);
  std::vector<RankEnd> collect(KeyValueStore& store, const Failure& own);
  void note_lost(const Participant& who);

  const RankEnvironment& environment_;
  const bool is_launched_;
  std::mutex mutex_;
  std::vector<Participant> lost_;  // guarded by mutex_; of the rank that serves the store
};

}  // namespace tessera::host
