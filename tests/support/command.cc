#include "support/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "support/processes.h"

namespace tessera::testing {
namespace {

std::string temp_file() {
  std::string name = "/tmp/tessera-output-XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) throw std::runtime_error("cannot make a file in /tmp");
  ::close(fd);
  return name;
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

Command::Command(std::vector<std::string> argv, const std::map<std::string, std::string>& environment)
    : out_file_(temp_file()), err_file_(temp_file()) {
  std::vector<char*> arguments;
  for (std::string& word : argv)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int out = ::open(out_file_.c_str(), O_WRONLY | O_TRUNC), err = ::open(err_file_.c_str(), O_WRONLY | O_TRUNC);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::dup2(out, 1);
    ::dup2(err, 2);
    ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);  // what else this process has open is not the program's
    for (const auto& [name, value] : environment)
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(out);
  ::close(err);
}

Command::~Command() {
  if (!ended_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::unlink(out_file_.c_str());
  ::unlink(err_file_.c_str());
}

std::string Command::err() const {
  return contents(err_file_);
}

bool Command::wait_for(std::string_view text) const {
  bool has_ended = false, is_said = false;
  eventually([&] {
    has_ended = !is_running(pid_);  // asked first: what it said last counts
    is_said = err().find(text) != std::string::npos;
    return is_said || has_ended;
  });
  return is_said;
}

CommandResult Command::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the command did not end; it said: " + err());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ended_ = true;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, contents(out_file_), contents(err_file_)};
}

CommandResult run_command(std::vector<std::string> argv, const std::map<std::string, std::string>& environment) {
  return Command(std::move(argv), environment).wait();
}

}  // namespace tessera::testing
