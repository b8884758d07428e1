// The ranks of a job as processes that the launcher has started.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/failure.h"

namespace tessera::host {

/// Whether a process is stopped, by SIGSTOP or a debugger.
bool is_stopped(pid_t pid);

/// With this, and not with 0, a rank that our launcher has started tells it that it has finished. A plugin that ends
/// the process by a system call of its own would choose 0.
inline constexpr int kRankFinished = 40;

/// Where the ranks find one another.
struct RankMeeting {
  uint16_t port = 0;
  std::string secret;
};

/// The destructor kills the ranks that still run. [control-thread]
class LaunchedRanks {
 public:
  /// A rank that exits with `finished_code` has finished.
  explicit LaunchedRanks(int finished_code) : finished_code_(finished_code) {}
  ~LaunchedRanks();
  LaunchedRanks(const LaunchedRanks&) = delete;
  LaunchedRanks& operator=(const LaunchedRanks&) = delete;

  /// Starts the next of `num_ranks` ranks, with `signals` blocked. Throws UNAVAILABLE.
  void start(const std::string& executable, const std::vector<std::string>& arguments, int num_ranks,
             const RankMeeting& meeting, const sigset_t& signals);
  /// Takes note of those that have ended.
  void reap();

  bool all_ended() const;
  bool has_finished() const;
  /// The first that did not exit with 0; nullptr: there is none.
  const RankEnd* first_failure() const {
    return first_failure_ < 0 ? nullptr : &ends_[static_cast<size_t>(first_failure_)];
  }
  /// All ranks that still run are stopped: only SIGKILL has an effect on them.
  bool only_stopped_run() const;
  std::vector<RankEnd>& ends() { return ends_; }

  void signal(int signal) const;
  /// To one rank that runs.
  void signal_one(int signal) const;
  /// Marks all that still run as ended by the launcher.
  void begin_to_end();

 private:
  void note_end(RankEnd& end, int status);

  int finished_code_;
  std::vector<RankEnd> ends_;  // by rank
  int num_ended_ = 0;
  int first_failure_ = -1;
};

}  // namespace tessera::host
