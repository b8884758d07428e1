// The launcher waits for signals on one thread: SIGCHLD when a rank ends or stops, and those that end the job. Ranks
// that are left after a failure are ended in steps; most end by themselves, because the store is closed:
//
//     a rank fails -> store closed -> grace_ms -> SIGTERM -> kill_ms -> SIGKILL
//
// A signal of a terminal, or one to the process group, reaches the ranks by itself too. It is passed on all the same:
// ranks take two within kOneRequest for one. One that a rank itself has sent is a plugin's, and that rank has failed.

#include "launch/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/concat.h"
#include "base/terminal.h"
#include "launch/failure.h"
#include "launch/launched_ranks.h"
#include "launch/process_setup.h"
#include "launch/run_signals.h"
#include "launch/tcp_store.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr timespec kTick = {0, 50'000'000};

// Blocks the signals that the launcher waits for; restores the old mask at the end.
class BlockedSignals {
 public:
  BlockedSignals() { pthread_sigmask(SIG_BLOCK, &wanted_, &before_); }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  const sigset_t& before() const { return before_; }
  // The next signal, or 0 after a tick.
  int wait(siginfo_t& info) const { return std::max(0, sigtimedwait(&wanted_, &info, &kTick)); }

 private:
  const sigset_t wanted_ = signals_of_parent();
  sigset_t before_;
};

// Ends the remaining ranks in steps: time to end by themselves, SIGTERM, SIGKILL.
class Ending {
 public:
  Ending(const LaunchRequest& request, LaunchedRanks& ranks) : request_(request), ranks_(ranks) {}

  /// May be called for several reasons; the earliest time counts.
  void begin(int64_t grace_ms) {
    has_failed_ = true;
    begin_at(grace_ms);
  }
  /// Of ranks that should end by themselves, as others have: those that wait for the reader of the log are left alone.
  void begin_to_finish() { begin_at(request_.finish_ms); }

  void tick() {
    if (stage_ == Stage::none || Clock::now() < next_) return;
    if (!has_failed_ && ranks_.only_wait_for_reader()) {
      next_ = Clock::now() + std::chrono::milliseconds(request_.finish_ms);
      return;
    }
    const bool can_act = stage_ == Stage::grace && !ranks_.only_stopped_run();
    if (stage_ == Stage::grace) ranks_.begin_to_end();
    ranks_.signal(can_act ? SIGTERM : SIGKILL);
    stage_ = Stage::terminated;
    next_ = Clock::now() + std::chrono::milliseconds(request_.kill_ms);
  }

 private:
  enum class Stage { none, grace, terminated };

  void begin_at(int64_t grace_ms) {
    const auto at = Clock::now() + std::chrono::milliseconds(grace_ms);
    if (stage_ == Stage::none || (stage_ == Stage::grace && at < next_)) next_ = at;
    if (stage_ == Stage::none) stage_ = Stage::grace;
  }

  const LaunchRequest& request_;
  LaunchedRanks& ranks_;
  Stage stage_ = Stage::none;
  bool has_failed_ = false;  // or was told to end
  Clock::time_point next_;
};

// The signals to the launcher, passed on to the ranks.
class Requests {
 public:
  Requests(const LaunchRequest& request, LaunchedRanks& ranks, Ending& ending, const Log& log)
      : request_(request), ranks_(ranks), ending_(ending), log_(log) {}

  void take(int signal) {
    if (signal == SIGUSR1) return save(signal);
    const bool stops = signal == SIGTERM || signal == SIGINT;
    if (stops && request_.has_steps && !stop_ && !end_) return stop(signal);
    if (stops && Clock::now() - asked_ < kOneRequest) return;
    log_.warning(text(signal), stop_ || end_ ? "killing" : "ending", " the ranks");
    ranks_.signal(stop_ || end_ ? SIGKILL : signal);
    ending_.begin(request_.signal_grace_ms);
    asked_ = Clock::now();
    end_ = signal;
  }

  /// The signal that ended the job; 0: none did. A rank that trains nothing yet dies of the one that asks it to stop.
  int ended_by() const {
    if (end_) return end_;
    const RankEnd* failed = ranks_.first_failure();
    return stop_ && failed && failed->how == RankEnd::How::killed && failed->value == stop_ ? stop_ : 0;
  }

 private:
  static std::string text(int signal) { return concat("signal ", signal, " (", ::strsignal(signal), "): "); }

  void save(int signal) {
    if (!request_.has_steps) return log_.info(text(signal), "these ranks have no checkpoint to save");
    log_.info(text(signal), "asking one rank for a checkpoint");
    ranks_.signal_one(signal);
  }
  void stop(int signal) {
    log_.warning(
        text(signal),
        "the ranks stop after their current step, or at once if none has begun; another one ends them at once");
    ranks_.signal(signal);
    asked_ = Clock::now();
    stop_ = signal;
  }

  const LaunchRequest& request_;
  LaunchedRanks& ranks_;
  Ending& ending_;
  const Log& log_;
  int stop_ = 0, end_ = 0;  // signals
  Clock::time_point asked_;
};

// Watches the ranks until all have ended. Returns the signal that ended the job; 0: none did.
int watch(const LaunchRequest& request, LaunchedRanks& ranks, MemoryStore& store, const BlockedSignals& signals,
          const Log& log) {
  Ending ending(request, ranks);
  Requests requests(request, ranks, ending, log);
  while (!ranks.all_ended()) {
    siginfo_t info{};
    const int signal = signals.wait(info);
    if (signal != 0 && signal != SIGCHLD) {
      if (const RankEnd* sender = ranks.blame_sender(signal, sender_of(info)))
        store.close(concat(rank_name(sender->who), " failed: ", sender->failure->sentence));
      else
        requests.take(signal);
    }
    if (signal == SIGCHLD && info.si_code == CLD_STOPPED && is_stopped(info.si_pid))
      log.warning("a rank (process ", info.si_pid, ") is stopped; resume it with kill -CONT ", info.si_pid);
    ranks.reap();
    if (const RankEnd* failed = ranks.first_failure()) store.close(rank_name(failed->who) + " " + cause_text(*failed));
    if (store.is_closed()) ending.begin(ranks.only_stopped_run() ? 0 : request.grace_ms);
    if (ranks.has_finished()) ending.begin_to_finish();
    ending.tick();
    write_what_is_kept(UntilRead::not_at_all);
  }
  return requests.ended_by();
}

LaunchResult conclude(LaunchedRanks& ranks, MemoryStore& store, bool has_steps) {
  std::vector<RankEnd>& ends = ranks.ends();
  read_failures(store, ends);
  const int cause = first_cause(ends);
  if (cause < 0) return {};
  return {exit_code_of(ends[static_cast<size_t>(cause)]), failure_block(ends, has_steps)};
}

// The store itself has three, and needs one for a rank that is joining; one is the memory of the ranks' endings.
constexpr int kDescriptorsOfJob = 5, kConnectionsOfRank = 2;

int num_open_files(rlim_t limit) {
  constexpr rlim_t kFirst = 4096;
  int num_open = 0;
  for (int fd = 0, end = static_cast<int>(std::min(limit, kFirst)); fd < end; ++fd)
    if (::fcntl(fd, F_GETFD) != -1) ++num_open;
  return num_open;
}

// Without this check, a rank that cannot connect would time out, and its error would blame another rank.
void require_descriptors(int num_ranks) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const int needed = num_open_files(limit.rlim_cur) + kDescriptorsOfJob + kConnectionsOfRank * num_ranks;
  if (limit.rlim_cur >= static_cast<rlim_t>(needed)) return;
  throw Error(TSR_E_RESOURCE_EXHAUSTED,
              concat("this process may have ", counted(limit.rlim_cur, "file"), " open, but ",
                     counted(num_ranks, "rank"), num_ranks == 1 ? " needs at least " : " need at least ", needed,
                     "; raise the limit with ulimit -n, or start fewer ranks"));
}

// Else each rank would find that out by itself, without a store to report it to.
void require_loopback(const TcpStoreServer& server) {
  constexpr int64_t kTryMs = 1000;
  try {
    Socket::connect("127.0.0.1", server.port(), deadline_in(kTryMs), Refused::no_more);
  } catch (const Error& error) {
    if (error.code() == TSR_E_FAILED_PRECONDITION)
      throw Error(error.code(), concat(error.what(), ", or give --comm local, whose ranks are threads of one process"));
  }
}

}  // namespace

std::string own_executable() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw Error(TSR_E_UNAVAILABLE,
                concat("cannot read /proc/self/exe, by which this program finds itself and its plugins: ",
                       error.message(), "; mount /proc"));
  return program.string();
}

LaunchResult launch_ranks(const LaunchRequest& request, const Log& log) {
  if (::access(request.executable.c_str(), X_OK) != 0)
    throw Error(TSR_E_UNAVAILABLE, concat("cannot start ", request.executable, ": ", std::strerror(errno)));
  require_descriptors(request.num_ranks);
  ::signal(SIGCHLD, SIG_DFL);    // ignored by some who start programs, and then no rank could be waited for
  const BlockedSignals signals;  // first: the server's threads inherit the mask
  const std::string secret = random_secret();
  TcpStoreServer server("127.0.0.1", 0, secret);
  require_loopback(server);
  server.store().set(kLauncherLog, request.log);
  LaunchedRanks ranks(request.num_ranks, request.ranks_say_when_done);
  for (int rank = 0; rank < request.num_ranks; ++rank)
    ranks.start(request.executable, request.arguments, {server.port(), secret}, signals.before());
  if (request.asks_to_save) ranks.signal_one(SIGUSR1);
  const int ended_by = watch(request, ranks, server.store(), signals, log);
  return ended_by ? LaunchResult{128 + ended_by, ""} : conclude(ranks, server.store(), request.has_steps);
}

}  // namespace tessera::host
