#include "support/terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "support/patience.h"

namespace tessera::testing {
namespace {

/// All that is written until the last process has closed the terminal.
std::string read_terminal(int terminal, int pid) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string written;
  std::array<char, 4096> part;
  for (;;) {
    pollfd ready{terminal, POLLIN, 0};
    ::poll(&ready, 1, 100);
    if (std::chrono::steady_clock::now() > end) {
      ::kill(-pid, SIGKILL);
      throw std::runtime_error("a program on a terminal has not ended; it wrote: " + written);
    }
    if (ready.revents == 0) continue;
    const ssize_t num_bytes = ::read(terminal, part.data(), part.size());
    if (num_bytes <= 0) return written;  // EIO: no process has it open
    written.append(part.data(), static_cast<size_t>(num_bytes));
  }
}

/// A screen of endless length, with a cursor.
class Screen {
 public:
  void put(char c) {
    std::string& line = lines_.back();
    if (c == '\r')
      column_ = 0;
    else if (c == '\n')
      lines_.emplace_back();  // the column stays, as on a terminal; "\r\n" is what it is sent
    else if (column_ < line.size())
      line[column_++] = c;
    else
      line.append(column_++ - line.size(), ' ') += c;
  }
  /// A sequence that ends in this letter.
  void control(char letter) {
    if (letter == 'K' && column_ < lines_.back().size()) lines_.back().resize(column_);
  }
  std::vector<std::string> lines() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_{""};
  size_t column_ = 0;  // in bytes: where characters of several are, all that follows on the line is erased first
};

}  // namespace

std::vector<std::string> shown(std::string_view written) {
  Screen screen;
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '\x1b') {
      screen.put(written[i]);
      continue;
    }
    size_t end = i + 2;  // after "\x1b["
    while (end < written.size() && (written[end] < '@' || written[end] > '~'))
      ++end;
    if (end < written.size()) screen.control(written[end]);
    i = end;
  }
  return screen.lines();
}

TerminalResult run_on_terminal(std::vector<std::string> argv, const std::map<std::string, std::string>& environment,
                               int num_columns) {
  std::vector<char*> arguments;
  for (std::string& word : argv)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const winsize size{50, static_cast<unsigned short>(num_columns), 0, 0};
  int terminal = -1;
  const int pid = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid < 0) throw std::runtime_error("cannot make a terminal");
  if (pid == 0) {
    ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    for (const auto& [name, value] : environment)
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  TerminalResult result;
  result.written = read_terminal(terminal, pid);
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::close(terminal);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.lines = shown(result.written);
  return result;
}

}  // namespace tessera::testing
