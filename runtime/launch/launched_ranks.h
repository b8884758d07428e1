// The ranks of a job as processes that the launcher has started.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/ending.h"
#include "launch/failure.h"

namespace tessera::host {

/// Whether a process is stopped, by SIGSTOP or a debugger.
bool is_stopped(pid_t pid);
/// Whether `process` is `root`, or was started below it. False for one that has ended and is known no more, and where
/// `root` is process 1, which others are given to.
bool is_below(pid_t process, pid_t root);
/// The process that has sent a signal; 0: none has, or it is not known.
pid_t sender_of(const siginfo_t& signal);

/// Where the ranks find one another.
struct RankRendezvous {
  uint16_t port = 0;
  std::string secret;
};

/// A rank finds its Ending by this environment variable, the number of an open file, and its rank.
inline constexpr const char* kEndingsFile = "TESSERA_ENDINGS_FILE";

/// The destructor kills the ranks that still run. [control-thread]
class LaunchedRanks {
 public:
  /// A rank that exits with 0 has finished; where ranks `say_when_done`, only if it has set Ending::has_finished.
  /// Throws UNAVAILABLE.
  LaunchedRanks(int num_ranks, bool say_when_done) : endings_(num_ranks), say_when_done_(say_when_done) {}
  ~LaunchedRanks();
  LaunchedRanks(const LaunchedRanks&) = delete;
  LaunchedRanks& operator=(const LaunchedRanks&) = delete;

  /// Starts the next rank, with `signals` blocked. Throws UNAVAILABLE.
  void start(const std::string& executable, const std::vector<std::string>& arguments, const RankRendezvous& rendezvous,
             const sigset_t& signals);
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
  /// All ranks that still run have nothing left to do but to write lines that their reader has not taken.
  bool only_wait_for_reader() const;
  std::vector<RankEnd>& ends() { return ends_; }

  void signal(int signal) const;
  /// To one rank that runs.
  void signal_one(int signal) const;
  /// Marks all that still run as ended by the launcher.
  void begin_to_end();
  /// If a rank, or what it has started, has sent that signal to this process, it has failed by that. [control-thread]
  const RankEnd* blame_sender(int signal, pid_t sender);

 private:
  void note_end(RankEnd& end, int status);

  const SharedEndings endings_;  // by rank
  const bool say_when_done_;
  std::vector<RankEnd> ends_;  // by rank
  int num_ended_ = 0;
  int first_failure_ = -1;
};

}  // namespace tessera::host
