#include "launch/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "launch/tcp_store.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStartFailed = 127;
constexpr timespec kTick = {0, 50'000'000};

// Blocks the signals that the launcher waits for, and gives the old mask back.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&wanted_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD})
      sigaddset(&wanted_, signal);
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

// The server has threads by now, so the child may only call what is safe after a fork of one thread.
pid_t start(const std::string& executable, std::vector<std::string> arguments, std::vector<std::string> environment,
            const sigset_t& signals) {
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(environment);
  const pid_t launcher = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw Error(TSR_E_UNAVAILABLE, concat("cannot start a rank: ", std::strerror(errno), "; start fewer"));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(kStartFailed);  // it died before the line above
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  ::execve(executable.c_str(), argv.data(), envp.data());
  ::_exit(kStartFailed);
}

// The ranks that were started; kills what is left of them when it goes.
class Ranks {
 public:
  explicit Ranks(const Log& log) : log_(log) {}
  ~Ranks() {
    signal(SIGKILL);
    for (const pid_t pid : pids_)
      if (pid > 0) ::waitpid(pid, nullptr, 0);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void add(pid_t pid) { pids_.push_back(pid); }
  bool all_ended() const {
    return std::all_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid == 0; });
  }
  bool has_failed() const { return exit_code_ != 0; }
  int exit_code() const { return exit_code_; }

  void signal(int signal) const {
    for (const pid_t pid : pids_)
      if (pid > 0) ::kill(pid, signal);
  }

  void reap() {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] == 0 || ::waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) continue;
      note_end(rank, pids_[rank], status);
      pids_[rank] = 0;
    }
  }

 private:
  void note_end(size_t rank, pid_t pid, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const bool was_killed = WIFSIGNALED(status);
    const std::string how =
        was_killed ? concat("was killed by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")
                   : concat("ended with exit code ", WEXITSTATUS(status));
    if (has_failed()) {
      log_.debug("rank ", rank, " (process ", pid, ") ", how);
      return;
    }
    exit_code_ = was_killed ? 1 : WEXITSTATUS(status);
    log_.error("rank ", rank, " (process ", pid, ") ", how, "; it was the first to fail");
  }

  const Log& log_;
  std::vector<pid_t> pids_;  // by rank; 0 when it has ended
  int exit_code_ = 0;
};

// Ends the ranks that are left, in steps: time to end by themselves, SIGTERM, SIGKILL.
class Ending {
 public:
  Ending(const LaunchRequest& request, const Ranks& ranks, const Log& log)
      : request_(request), ranks_(ranks), log_(log) {}

  bool has_begun() const { return step_ != Step::none; }
  void begin() {
    step_ = Step::grace;
    next_ = Clock::now() + std::chrono::milliseconds(request_.grace_ms);
  }
  void tick() {
    if (step_ == Step::none || Clock::now() < next_) return;
    const bool is_first = step_ == Step::grace;
    log_.warning("the ranks that are left did not end within ", is_first ? request_.grace_ms : request_.kill_ms,
                 " ms; sending ", is_first ? "SIGTERM" : "SIGKILL");
    ranks_.signal(is_first ? SIGTERM : SIGKILL);
    step_ = Step::terminated;
    next_ = Clock::now() + std::chrono::milliseconds(request_.kill_ms);
  }

 private:
  enum class Step { none, grace, terminated };

  const LaunchRequest& request_;
  const Ranks& ranks_;
  const Log& log_;
  Step step_ = Step::none;
  Clock::time_point next_;
};

int watch(const LaunchRequest& request, Ranks& ranks, const BlockedSignals& signals, const Log& log) {
  Ending ending(request, ranks, log);
  int ended_by = 0;
  while (!ranks.all_ended()) {
    siginfo_t info{};
    const int signal = signals.wait(info);
    if (signal == SIGINT || signal == SIGTERM) {
      log.warning("signal ", signal, " (", ::strsignal(signal), "): ", ended_by ? "killing" : "ending", " the ranks");
      // A terminal sends it to the ranks as well.
      if (ended_by || info.si_code != SI_KERNEL) ranks.signal(ended_by ? SIGKILL : signal);
      ended_by = signal;
    }
    ranks.reap();
    if ((ranks.has_failed() || ended_by) && !ending.has_begun()) ending.begin();
    ending.tick();
  }
  return ended_by ? 128 + ended_by : ranks.exit_code();
}

}  // namespace

std::string own_executable() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

int launch_ranks(const LaunchRequest& request, const Log& log) {
  if (::access(request.executable.c_str(), X_OK) != 0)
    throw Error(TSR_E_UNAVAILABLE, concat("cannot start ", request.executable, ": ", std::strerror(errno)));
  const BlockedSignals signals;  // first: the server's threads inherit the mask
  const std::string secret = random_secret();
  const TcpStoreServer server("127.0.0.1", 0, secret);
  Ranks ranks(log);
  for (int rank = 0; rank < request.num_ranks; ++rank)
    ranks.add(start(request.executable, request.arguments,
                    rank_environment(rank, request.num_ranks, server.port(), secret), signals.before()));
  return watch(request, ranks, signals, log);
}

}  // namespace tessera
