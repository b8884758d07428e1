// A live line needs no coordination between the processes of a job: every process that writes a line to the terminal
// first erases the line that the cursor is in, and the process with the live line draws it again. So no line of a rank,
// of the launcher or of an error is mixed with the live line, provided that each is a single write.
//
// Lines are kept where the reader of standard error pauses (a pager, a terminal after ^S) and the process may not. Its
// descriptor is shared with other processes, for which writes have to wait, so what is written without waiting goes
// through a description of this process alone.

#include "base/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/concat.h"

namespace tessera::host {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool names_utf8(std::string_view locale) {
  return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
}

Terminal look_at_standard_error() {
  const std::string_view term = variable("TERM"), ci = variable("CI");
  Terminal terminal;
  terminal.redraws =
      ::isatty(STDERR_FILENO) == 1 && !term.empty() && term != "dumb" && (ci.empty() || ci == "false" || ci == "0");
  terminal.has_colors = terminal.redraws && variable("NO_COLOR").empty();
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (!variable(name).empty()) {  // the first that is set decides
      terminal.is_utf8 = names_utf8(variable(name));
      break;
    }
  return terminal;
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// False: nothing can be written any more.
bool write_and_wait(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (errno == EAGAIN && ::poll(&ready, 1, -1) >= 0) continue;
    if (errno != EINTR) return false;
  }
  return true;
}

constexpr std::chrono::milliseconds kMoment{200};
constexpr size_t kMaxKept = 1 << 20;

/// Text for standard error that its reader has not taken yet.
class KeptText {
 public:
  /// Without a description of its own, for files and sockets, writes go on waiting.
  void open() {
    struct stat status {};
    const bool may_pause =
        ::fstat(STDERR_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
    if (!may_pause || file_ >= 0) return;
    process_ = ::getpid();
    file_ = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ::fstat(file_, &status_);
  }

  /// Not in a copy of the process that a fork has made: what is kept there, the process itself writes. Nor when a
  /// plugin has closed the descriptor, whose number may be another file's by now.
  bool is_open() const {
    struct stat now {};
    return file_ >= 0 && ::getpid() == process_ && ::fstat(file_, &now) == 0 && now.st_dev == status_.st_dev &&
           now.st_ino == status_.st_ino;
  }

  void add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const bool is_behind = !text_.empty();
    text_ += text;
    if (text_.size() > kMaxKept) lose_oldest();
    write(is_behind ? std::chrono::milliseconds(0) : kMoment);
  }

  void add_status(std::string_view text) {
    const std::lock_guard lock(mutex_);
    write(std::chrono::milliseconds(0));
    if (!text_.empty()) return;
    text_ = text;
    write(kMoment);
  }

  /// Another thread may hold the lock for as long as the reader pauses, at the end of the process.
  void write_all(UntilRead wait) {
    // Not a timed_mutex: GCC 12's thread sanitizer does not see pthread_mutex_clocklock.
    std::unique_lock lock(mutex_, std::defer_lock);
    for (const auto end = std::chrono::steady_clock::now() + kMoment; !lock.try_lock();) {
      if (std::chrono::steady_clock::now() > end) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (wait != UntilRead::forever)
      return write(wait == UntilRead::for_a_moment ? kMoment : std::chrono::milliseconds(0));
    for (std::string_view rest = text_; !rest.empty();) {
      const std::string_view piece = first_piece(rest);
      if (!write_and_wait(piece)) break;
      rest.remove_prefix(piece.size());
    }
    text_.clear();
  }

 private:
  /// Whole lines, as many as a pipe takes in one piece, but at least one line.
  static std::string_view first_piece(std::string_view text) {
    const size_t last = text.substr(0, PIPE_BUF).rfind('\n');
    const size_t end = last == text.npos ? text.find('\n') : last;
    return end == text.npos ? text : text.substr(0, end + 1);
  }

  void write(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    size_t done = 0;
    while (done < text_.size()) {
      const std::string_view piece = first_piece(std::string_view(text_).substr(done));
      const ssize_t written = ::write(file_, piece.data(), piece.size());
      if (written >= 0) {
        done += static_cast<size_t>(written);
      } else if (errno == EAGAIN) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd ready{file_, POLLOUT, 0};
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) break;
      } else if (errno != EINTR) {
        done = text_.size();  // the reader is gone
      }
    }
    if (done == 0) return;
    num_lost_ = 0;  // their number is written
    text_.erase(0, done);
  }

  void lose_oldest() {
    const size_t newline = text_.find('\n', text_.size() - kMaxKept / 2);
    const size_t end = newline == text_.npos ? text_.size() : newline + 1;
    const auto lines = static_cast<uint64_t>(std::count(text_.begin(), text_.begin() + static_cast<long>(end), '\n'));
    num_lost_ += lines - (num_lost_ > 0 ? 1 : 0);  // the first line says how many were lost before
    text_.replace(0, end,
                  concat("tessera: ", num_lost_, " lines are left out here: the log was not read for too long\n"));
  }

  int file_ = -1;  // this and what it is: set before there are threads
  pid_t process_ = -1;
  struct stat status_ {};
  std::mutex mutex_;
  std::string text_;       // guarded by mutex_
  uint64_t num_lost_ = 0;  // guarded by mutex_: lines that text_ begins with a sentence about
};

KeptText& kept_text() {
  static KeptText& one = *new KeptText;  // threads may write until the process has ended
  return one;
}

}  // namespace

const Terminal& standard_error() {
  static const Terminal terminal = look_at_standard_error();
  return terminal;
}

bool is_in_foreground() {
  const pid_t group = ::tcgetpgrp(STDERR_FILENO);
  return group < 0 || group == ::getpgrp();
}

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string_view clear_line() {
  return standard_error().redraws ? "\r\x1b[K" : "";
}

void write_standard_error(std::string_view text) {
  const WithoutSigpipe without;  // a run goes on without those who watch it
  if (kept_text().is_open())
    kept_text().add(text);
  else
    write_and_wait(text);
}

void write_status(std::string_view text) {
  const WithoutSigpipe without;
  if (kept_text().is_open())
    kept_text().add_status(text);
  else
    write_and_wait(text);
}

void keep_what_is_not_read() {
  kept_text().open();
}

void write_what_is_kept(UntilRead wait) {
  const WithoutSigpipe without;
  if (kept_text().is_open()) kept_text().write_all(wait);
}

std::string progress_bar(double fraction, int num_columns, const Terminal& terminal) {
  const auto full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * num_columns));
  std::string bar;
  for (int i = 0; i < num_columns; ++i)
    bar += terminal.is_utf8 ? (i < full ? "━" : "─") : (i < full ? "#" : "-");
  return bar;
}

std::string first_columns(std::string_view text, int num_columns) {
  size_t end = 0;
  for (int column = 0; end < text.size(); ++end)
    if (!continues_character(text[end]) && ++column > num_columns) break;
  return std::string(text.substr(0, end));
}

int num_columns_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return !continues_character(c); }));
}

}  // namespace tessera::host
