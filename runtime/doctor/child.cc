// Starts this program again with other arguments and collects what it prints:
//
//     doctor                       child, in a process group of its own
//     start, close writing ends
//     poll both pipes    <-----    standard output and standard error
//     both at their end, or late:  kill(-group, SIGKILL)
//     waitpid
//
// The group also has the processes that the child starts, such as the ranks of `bench comm`. A child that inherited a
// launcher's variables would take itself for a rank and wait for the others, so those are left out of its environment.
// Output beyond the limit is read and dropped: a child must not hang in a full pipe.

#include "doctor/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/clock.h"
#include "base/concat.h"
#include "launch/launcher.h"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxBytes = 1 << 20;  // of output

/// By them a process knows that it is a rank.
constexpr std::string_view kRankVariables[] = {
    "TESSERA_RANK=", "TESSERA_WORLD_SIZE=", "TESSERA_LOCAL_", "TESSERA_STORE_", "RANK=", "WORLD_SIZE=", "LOCAL_",
    "MASTER_",       "TORCHELASTIC_",       "SLURM_",         "OMPI_",          "PMI_",  "PMIX_",       "MPI_"};

std::vector<char*> environment_of_child() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::none_of(kRankVariables, [&](std::string_view begin) { return text.starts_with(begin); }))
      kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

/// Both ends of a pipe, closed with it.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) ends_ = {-1, -1};
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int end(size_t i) const { return ends_[i]; }
  void close_end(size_t i) {
    if (ends_[i] >= 0) ::close(ends_[i]);
    ends_[i] = -1;
  }
  /// What is there now; closes the end at its end of file.
  void read_into(std::string& text) {
    std::array<char, 4096> piece;
    const ssize_t got = ::read(ends_[0], piece.data(), piece.size());
    if (got > 0 && text.size() < kMaxBytes) text.append(piece.data(), static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) close_end(0);
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// -1 and errno if it cannot be started.
pid_t start(const std::vector<std::string>& arguments, const Pipe& out, const Pipe& err) {
  const std::string program = own_executable();
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> environment = environment_of_child();
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, out.end(1), 1);
  ::posix_spawn_file_actions_adddup2(&files, err.end(1), 2);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, program.c_str(), &files, &attributes, argv.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  errno = error;
  return error == 0 ? child : -1;
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments, int64_t limit_ms) {
  ChildResult result;
  const auto begin = Clock::now();
  Pipe out, err;
  const pid_t child = out.end(0) < 0 || err.end(0) < 0 ? -1 : start(arguments, out, err);
  if (child < 0) {
    result.err = concat("cannot start a process: ", std::strerror(errno));
    return result;
  }
  out.close_end(1);
  err.close_end(1);
  const auto left_ms = [&] {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
    return static_cast<int>(std::max<int64_t>(0, limit_ms - passed));
  };
  while (left_ms() > 0 && (out.end(0) >= 0 || err.end(0) >= 0)) {
    std::array<pollfd, 2> ends{{{out.end(0), POLLIN, 0}, {err.end(0), POLLIN, 0}}};
    if (::poll(ends.data(), ends.size(), left_ms()) <= 0) continue;
    if (ends[0].revents) out.read_into(result.out);
    if (ends[1].revents) err.read_into(result.err);
  }
  result.was_late = left_ms() == 0;
  if (result.was_late) ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.seconds = seconds_since(begin);
  return result;
}

/// Of "tessera: error: ..." only the sentence; of the block about a failed job the text after "cause:".
std::string ChildResult::reason() const {
  if (was_late) return concat("did not end within ", static_cast<int>(seconds + 0.5), " s and was killed");
  // The last line that the program itself wrote; of a job of several ranks, the cause that is below it.
  constexpr std::string_view kPrefix = "tessera: ", kError = "error: ", kCause = "\n  cause:";
  const size_t at = err.rfind("\n" + std::string(kPrefix));
  std::string_view text = std::string_view(err).substr(at != err.npos ? at + 1 : 0);
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  if (text.starts_with(kError)) text.remove_prefix(kError.size());
  if (const std::string_view below = text.substr(std::min(text.find('\n'), text.size())); below.starts_with(kCause))
    text = below.substr(std::min(below.find_first_not_of(' ', kCause.size()), below.size()));
  if (const std::string_view line = text.substr(0, text.find('\n')); !line.empty()) return std::string(line);
  return signal ? concat("ended by signal ", signal, " (", ::strsignal(signal), ")") : concat("exit code ", exit_code);
}

}  // namespace tessera::host
