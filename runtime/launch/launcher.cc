// The launcher waits for signals on one thread: SIGCHLD when a rank ends or stops, and those that end the job. Ranks
// that are left after a failure are ended in steps; most end by themselves, because the store is closed:
//
//     a rank fails -> store closed -> grace_ms -> SIGTERM -> kill_ms -> SIGKILL
//
// PR_SET_PDEATHSIG kills the ranks when the launcher itself is killed.

#include "launch/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/concat.h"
#include "launch/failure.h"
#include "launch/process_setup.h"
#include "launch/tcp_store.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStartFailed = 127;
constexpr timespec kTick = {0, 50'000'000};

// nohup starts programs with SIGHUP ignored. Blocking and waiting for it would undo that.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Blocks the signals that the launcher waits for; restores the old mask at the end.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&wanted_);
    sigaddset(&wanted_, SIGCHLD);
    for (const int signal : kEndingSignals)
      if (!is_ignored(signal)) sigaddset(&wanted_, signal);
    pthread_sigmask(SIG_BLOCK, &wanted_, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  const sigset_t& before() const { return before_; }
  // The next signal, or 0 after a tick.
  int wait(siginfo_t& info) const { return std::max(0, sigtimedwait(&wanted_, &info, &kTick)); }

 private:
  sigset_t wanted_, before_;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts)
    result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> rank_environment(int rank, int num_ranks, uint16_t port, const std::string& secret) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry)
    if (std::strncmp(*entry, "TESSERA_RANK=", 13) != 0 && std::strncmp(*entry, "TESSERA_WORLD_SIZE=", 19) != 0 &&
        std::strncmp(*entry, "TESSERA_LOCAL_", 14) != 0 && std::strncmp(*entry, "TESSERA_STORE_", 14) != 0 &&
        std::strncmp(*entry, "TESSERA_JOB_SECRET=", 19) != 0)
      environment.emplace_back(*entry);
  for (const char* name : {"TESSERA_RANK=", "TESSERA_LOCAL_RANK="})
    environment.push_back(concat(name, rank));
  for (const char* name : {"TESSERA_WORLD_SIZE=", "TESSERA_LOCAL_SIZE="})
    environment.push_back(concat(name, num_ranks));
  environment.push_back(concat("TESSERA_STORE_ADDR=127.0.0.1:", port));
  environment.push_back("TESSERA_STORE_SERVED=1");
  environment.push_back("TESSERA_JOB_SECRET=" + secret);
  return environment;
}

// The server has threads by now, so between fork and exec the child may only call async-signal-safe functions.
pid_t start(const std::string& executable, std::vector<std::string> arguments, std::vector<std::string> environment,
            const sigset_t& signals) {
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(environment);
  const pid_t launcher = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw Error(TSR_E_UNAVAILABLE,
                concat("cannot start a rank: ", std::strerror(errno), "; start fewer ranks, or raise ulimit -u"));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(kStartFailed);  // the launcher died before the line above
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  ::execve(executable.c_str(), argv.data(), envp.data());
  ::_exit(kStartFailed);
}

// Whether a process is stopped, by SIGSTOP or a debugger.
bool is_stopped(pid_t pid) {
  std::ifstream in(concat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(in, text);
  const size_t state = text.rfind(") ");  // the program's name before it may contain anything
  return state != std::string::npos && state + 2 < text.size() && (text[state + 2] == 'T' || text[state + 2] == 't');
}

pid_t pid_of(const RankEnd& end) {
  return static_cast<pid_t>(end.who.pid);
}

// The ranks that were started. The destructor kills those that still run.
class Ranks {
 public:
  Ranks() = default;
  ~Ranks() {
    signal(SIGKILL);
    for (const RankEnd& end : ends_)
      if (end.how == RankEnd::How::running) ::waitpid(pid_of(end), nullptr, 0);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void add(pid_t pid) {
    RankEnd& end = ends_.emplace_back();
    end.who = this_process(static_cast<int>(ends_.size()) - 1);
    end.who.pid = pid;
  }
  bool all_ended() const {
    return std::ranges::none_of(ends_, [](const RankEnd& end) { return end.how == RankEnd::How::running; });
  }
  bool has_finished() const {
    return std::ranges::any_of(ends_, [](const RankEnd& end) { return end.how == RankEnd::How::finished; });
  }
  /// The first that did not exit with 0; nullptr: there is none.
  const RankEnd* first_failure() const {
    return first_failure_ < 0 ? nullptr : &ends_[static_cast<size_t>(first_failure_)];
  }
  /// All ranks that still run are stopped: only SIGKILL has an effect on them.
  bool only_stopped_run() const {
    return std::ranges::all_of(
        ends_, [](const RankEnd& end) { return end.how != RankEnd::How::running || is_stopped(pid_of(end)); });
  }
  std::vector<RankEnd>& ends() { return ends_; }

  void signal(int signal) const {
    for (const RankEnd& end : ends_)
      if (end.how == RankEnd::How::running) ::kill(pid_of(end), signal);
  }
  /// Marks all that still run as ended by the launcher.
  void begin_to_end() {
    for (RankEnd& end : ends_) {
      if (end.how != RankEnd::How::running) continue;
      end.was_ended = true;
      end.was_stopped = is_stopped(pid_of(end));
    }
  }

  void reap() {
    for (RankEnd& end : ends_) {
      int status = 0;
      if (end.how == RankEnd::How::running && ::waitpid(pid_of(end), &status, WNOHANG) == end.who.pid)
        note_end(end, status);
    }
  }

 private:
  void note_end(RankEnd& end, int status) {
    end.order = ++num_ended_;
    end.how = WIFSIGNALED(status)        ? RankEnd::How::killed
              : WEXITSTATUS(status) == 0 ? RankEnd::How::finished
                                         : RankEnd::How::exited;
    end.value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (end.how != RankEnd::How::finished && first_failure_ < 0) first_failure_ = end.who.rank;
  }

  std::vector<RankEnd> ends_;  // by rank
  int num_ended_ = 0;
  int first_failure_ = -1;
};

// Ends the remaining ranks in steps: time to end by themselves, SIGTERM, SIGKILL.
class Ending {
 public:
  Ending(const LaunchRequest& request, Ranks& ranks) : request_(request), ranks_(ranks) {}

  /// May be called for several reasons; the earliest time counts.
  void begin(int64_t grace_ms) {
    const auto at = Clock::now() + std::chrono::milliseconds(grace_ms);
    if (step_ == Step::none || (step_ == Step::grace && at < next_)) next_ = at;
    if (step_ == Step::none) step_ = Step::grace;
  }
  void tick() {
    if (step_ == Step::none || Clock::now() < next_) return;
    const bool can_act = step_ == Step::grace && !ranks_.only_stopped_run();
    if (step_ == Step::grace) ranks_.begin_to_end();
    ranks_.signal(can_act ? SIGTERM : SIGKILL);
    step_ = Step::terminated;
    next_ = Clock::now() + std::chrono::milliseconds(request_.kill_ms);
  }

 private:
  enum class Step { none, grace, terminated };

  const LaunchRequest& request_;
  Ranks& ranks_;
  Step step_ = Step::none;
  Clock::time_point next_;
};

// Watches the ranks until all have ended. Returns the signal that ended the job; 0: none did.
int watch(const LaunchRequest& request, Ranks& ranks, MemoryStore& store, const BlockedSignals& signals,
          const Log& log) {
  Ending ending(request, ranks);
  int ended_by = 0;
  while (!ranks.all_ended()) {
    siginfo_t info{};
    const int signal = signals.wait(info);
    if (signal != 0 && signal != SIGCHLD) {
      log.warning("signal ", signal, " (", ::strsignal(signal), "): ", ended_by ? "killing" : "ending", " the ranks");
      // A terminal (SI_KERNEL) sends the signal to the ranks itself.
      if (ended_by || info.si_code != SI_KERNEL) ranks.signal(ended_by ? SIGKILL : SIGTERM);
      ending.begin(request.signal_grace_ms);
      ended_by = signal;
    }
    if (signal == SIGCHLD && info.si_code == CLD_STOPPED && is_stopped(info.si_pid))
      log.warning("a rank (process ", info.si_pid, ") is stopped; resume it with kill -CONT ", info.si_pid);
    ranks.reap();
    if (const RankEnd* failed = ranks.first_failure()) store.close(rank_name(failed->who) + " " + cause_text(*failed));
    if (store.is_closed()) ending.begin(ranks.only_stopped_run() ? 0 : request.grace_ms);
    if (ranks.has_finished()) ending.begin(request.finish_ms);
    ending.tick();
  }
  return ended_by;
}

LaunchResult conclude(Ranks& ranks, MemoryStore& store) {
  std::vector<RankEnd>& ends = ranks.ends();
  read_failures(store, ends);
  const int cause = first_cause(ends);
  if (cause < 0) return {};
  return {exit_code_of(ends[static_cast<size_t>(cause)]), failure_block(ends)};
}

// The store itself has three, and needs one for a rank that is joining.
constexpr int kDescriptorsOfStore = 4, kConnectionsOfRank = 2;

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
  const int needed = num_open_files(limit.rlim_cur) + kDescriptorsOfStore + kConnectionsOfRank * num_ranks;
  if (limit.rlim_cur >= static_cast<rlim_t>(needed)) return;
  throw Error(TSR_E_RESOURCE_EXHAUSTED,
              concat("this process may have ", limit.rlim_cur, " files open, but ", num_ranks, " ranks need at least ",
                     needed, "; raise the limit with ulimit -n, or start fewer ranks"));
}

}  // namespace

std::string own_executable() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

LaunchResult launch_ranks(const LaunchRequest& request, const Log& log) {
  if (::access(request.executable.c_str(), X_OK) != 0)
    throw Error(TSR_E_UNAVAILABLE, concat("cannot start ", request.executable, ": ", std::strerror(errno)));
  require_descriptors(request.num_ranks);
  const BlockedSignals signals;  // first: the server's threads inherit the mask
  const std::string secret = random_secret();
  TcpStoreServer server("127.0.0.1", 0, secret);
  Ranks ranks;
  for (int rank = 0; rank < request.num_ranks; ++rank)
    ranks.add(start(request.executable, request.arguments,
                    rank_environment(rank, request.num_ranks, server.port(), secret), signals.before()));
  const int ended_by = watch(request, ranks, server.store(), signals, log);
  return ended_by ? LaunchResult{128 + ended_by, ""} : conclude(ranks, server.store());
}

}  // namespace tessera::host
