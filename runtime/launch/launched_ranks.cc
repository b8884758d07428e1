// PR_SET_PDEATHSIG kills the ranks when the launcher itself is killed.
//
// A rank is this program again, with the same arguments and an environment that says which rank it is:
//
//     TESSERA_RANK=1 TESSERA_WORLD_SIZE=2 TESSERA_STORE_ADDR=127.0.0.1:40123 ... tessera train ...

#include "launch/launched_ranks.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// The exit code of a shell for a command that it cannot find.
constexpr int kStartFailed = 127;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts)
    result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Without what an outer launcher has set under the same names: this job has ranks and a store of its own.
std::vector<std::string> rank_environment(int rank, int num_ranks, int endings, const RankRendezvous& rendezvous) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry)
    if (std::strncmp(*entry, "TESSERA_RANK=", 13) != 0 && std::strncmp(*entry, "TESSERA_WORLD_SIZE=", 19) != 0 &&
        std::strncmp(*entry, "TESSERA_LOCAL_", 14) != 0 && std::strncmp(*entry, "TESSERA_STORE_", 14) != 0 &&
        std::strncmp(*entry, "TESSERA_JOB_SECRET=", 19) != 0 && std::strncmp(*entry, "TESSERA_ENDINGS_", 16) != 0)
      environment.emplace_back(*entry);
  for (const char* name : {"TESSERA_RANK=", "TESSERA_LOCAL_RANK="})
    environment.push_back(concat(name, rank));
  for (const char* name : {"TESSERA_WORLD_SIZE=", "TESSERA_LOCAL_SIZE="})
    environment.push_back(concat(name, num_ranks));
  environment.push_back(concat("TESSERA_STORE_ADDR=127.0.0.1:", rendezvous.port));
  environment.push_back("TESSERA_STORE_SERVED=1");
  environment.push_back("TESSERA_JOB_SECRET=" + rendezvous.secret);
  environment.push_back(concat(kEndingsFile, "=", endings));
  return environment;
}

// The server has threads by now, so between fork and exec the child may only call async-signal-safe functions. _Fork
// calls no handlers that a plugin has installed for forks.
pid_t start_process(const std::string& executable, std::vector<std::string> arguments,
                    std::vector<std::string> environment, int kept_file, const sigset_t& signals) {
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(environment);
  const pid_t launcher = ::getpid();
  const pid_t child = ::_Fork();
  if (child < 0)
    throw Error(TSR_E_UNAVAILABLE,
                concat("cannot start a rank: ", std::strerror(errno), "; start fewer ranks, or raise ulimit -u"));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(kStartFailed);  // the launcher died before the line above
  ::fcntl(kept_file, F_SETFD, 0);
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  ::execve(executable.c_str(), argv.data(), envp.data());
  ::_exit(kStartFailed);
}

pid_t pid_of(const RankEnd& end) {
  return static_cast<pid_t>(end.who.pid);
}

struct ProcessStatus {
  char state = 0;  // 'T': stopped by a signal, 't': by a debugger
  pid_t parent = 0;
};

// /proc/PID/stat is "733 (tessera) T 1 ...": state and parent.
ProcessStatus status_of(pid_t pid) {
  std::ifstream in(concat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(in, text);
  ProcessStatus status;
  const size_t name_end = text.rfind(") ");  // the program's name before it may contain anything
  if (name_end != std::string::npos) std::istringstream(text.substr(name_end + 2)) >> status.state >> status.parent;
  return status;
}

}  // namespace

bool is_stopped(pid_t pid) {
  const char state = status_of(pid).state;
  return state == 'T' || state == 't';
}

bool is_below(pid_t process, pid_t root) {
  while (process > 1 && process != root)
    process = status_of(process).parent;
  return process > 1 && process == root;
}

pid_t sender_of(const siginfo_t& signal) {
  const bool is_sent = signal.si_code == SI_USER || signal.si_code == SI_TKILL || signal.si_code == SI_QUEUE;
  return is_sent ? signal.si_pid : 0;
}

LaunchedRanks::~LaunchedRanks() {
  signal(SIGKILL);
  for (const RankEnd& end : ends_)
    if (end.how == RankEnd::How::running) ::waitpid(pid_of(end), nullptr, 0);
}

void LaunchedRanks::start(const std::string& executable, const std::vector<std::string>& arguments,
                          const RankRendezvous& rendezvous, const sigset_t& signals) {
  const int rank = static_cast<int>(ends_.size());
  const pid_t pid = start_process(executable, arguments,
                                  rank_environment(rank, endings_.num_processes(), endings_.file(), rendezvous),
                                  endings_.file(), signals);
  RankEnd& end = ends_.emplace_back();
  end.who = this_process(rank);
  end.who.pid = pid;
}

// By process, since waiting for any child would also take one that a library of this process has started.
void LaunchedRanks::reap() {
  for (RankEnd& end : ends_) {
    int status = 0;
    if (end.how == RankEnd::How::running && ::waitpid(pid_of(end), &status, WNOHANG) == end.who.pid)
      note_end(end, status);
  }
}

void LaunchedRanks::note_end(RankEnd& end, int status) {
  end.order = ++num_ended_;
  const bool is_done =
      WIFEXITED(status) && WEXITSTATUS(status) == 0 && (!say_when_done_ || endings_[end.who.rank].has_finished);
  end.how = WIFSIGNALED(status) ? RankEnd::How::killed : is_done ? RankEnd::How::finished : RankEnd::How::exited;
  end.value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  if (end.how != RankEnd::How::finished && first_failure_ < 0) first_failure_ = end.who.rank;
}

bool LaunchedRanks::all_ended() const {
  return std::ranges::none_of(ends_, [](const RankEnd& end) { return end.how == RankEnd::How::running; });
}

bool LaunchedRanks::has_finished() const {
  return std::ranges::any_of(ends_, [](const RankEnd& end) { return end.how == RankEnd::How::finished; });
}

bool LaunchedRanks::only_stopped_run() const {
  return std::ranges::all_of(
      ends_, [](const RankEnd& end) { return end.how != RankEnd::How::running || is_stopped(pid_of(end)); });
}

bool LaunchedRanks::only_wait_for_reader() const {
  return std::ranges::all_of(ends_, [&](const RankEnd& end) {
    return end.how != RankEnd::How::running || endings_[end.who.rank].waits_for_reader;
  });
}

void LaunchedRanks::signal(int signal) const {
  for (const RankEnd& end : ends_)
    if (end.how == RankEnd::How::running) ::kill(pid_of(end), signal);
}

void LaunchedRanks::signal_one(int signal) const {
  const auto rank = std::ranges::find(ends_, RankEnd::How::running, &RankEnd::how);
  if (rank != ends_.end()) ::kill(pid_of(*rank), signal);
}

const RankEnd* LaunchedRanks::blame_sender(int signal, pid_t sender) {
  const auto end = std::ranges::find_if(ends_, [&](const RankEnd& rank) { return is_below(sender, pid_of(rank)); });
  if (end == ends_.end()) return nullptr;
  const Error what(TSR_E_FAILED_PRECONDITION, concat("it has sent SIG", ::sigabbrev_np(signal),
                                                     " to its launcher, which only a plugin can have done"));
  end->failure = make_failure(what, end->who.rank, 0);
  end->failure->who = end->who;
  return &*end;
}

// Before any signal: a stopped process does not show afterwards that it was stopped.
void LaunchedRanks::begin_to_end() {
  for (RankEnd& end : ends_) {
    if (end.how != RankEnd::How::running) continue;
    end.was_ended = true;
    end.was_stopped = is_stopped(pid_of(end));
  }
}

}  // namespace tessera::host
