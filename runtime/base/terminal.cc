// A live line needs no coordination between the processes of a job: every process that writes a line to the terminal
// first erases the line that the cursor is in, and the process with the live line draws it again. So no line of a rank,
// of the launcher or of an error is mixed with the live line, provided that each is a single write.

#include "base/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

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
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (errno == EAGAIN && ::poll(&ready, 1, -1) >= 0) continue;
    if (errno != EINTR) return;
  }
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
