// What a rank writes into the folder of --out.
#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "base/log.h"
#include "job/job.h"
#include "train/rank_observer.h"

namespace tessera::host {

/// One rank's part of the record of a run: its log; and of rank 0 also configuration, plan, metrics and TensorBoard's
/// events. Nothing is created before the run has passed all checks: until then the log is kept in memory. After that,
/// no failure here ends or delays the run (background_writer.h). A rank without --out has none of it.
class RankRecord {
 public:
  /// `folder` empty: nothing is recorded. `warnings` gets the problems with the files; it must not be copied to
  /// log_stream().
  RankRecord(std::string folder, int rank, const Log& warnings);
  ~RankRecord();
  RankRecord(const RankRecord&) = delete;
  RankRecord& operator=(const RankRecord&) = delete;

  bool is_on() const { return state_ != nullptr; }
  /// Each flushed text becomes part of the log. For Log::copy_to; only if is_on().
  std::ostream& log_stream();
  /// A line with its time, for the log in the folder alone. [any-thread]
  void note(const std::string& text);

  // For a launcher, which is a process of its own and has no folder: its log is part of rank 0's.

  /// What was logged so far, which this record then no longer has; of one that did not begin.
  std::string take_log();
  /// The log begins with `text`, which ends with a newline, or is empty. Before the run begins.
  void begin_with(std::string text);
  /// After the ranks have ended: what was logged since take_log() goes to the end of rank 0's log, if it has one.
  void append_to_log();

  /// Adds the record to what the run reports to `observer`. `num_threads`: of a rank.
  void observe(const Job& job, int num_threads, RankObserver& observer);

 private:
  struct State;
  std::shared_ptr<State> state_;  // the observer's too
};

}  // namespace tessera::host
