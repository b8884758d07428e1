// The log: lines on stderr, one logger per rank; and the error that a command ends with.
#pragma once

#include <memory>
#include <string_view>

#include "base/concat.h"
#include "tessera/core.h"

namespace tessera::host {

/// The values are TSR_LOG_*, so a plugin's level is one of these.
enum class LogLevel : int32_t {
  debug = TSR_LOG_DEBUG,
  info = TSR_LOG_INFO,
  warning = TSR_LOG_WARNING,
  error = TSR_LOG_ERROR,
  off = TSR_LOG_ERROR + 1
};

/// The names on the command line, separated by '|': debug|info|warning|error|off.
inline constexpr std::string_view kLogLevelNames = "debug|info|warning|error|off";
/// Throws INVALID_ARGUMENT for a name that is not in kLogLevelNames.
LogLevel parse_log_level(std::string_view name);

/// A rank's logger. Copies share the sink; cheap to copy and to keep. Every function is [any-thread].
///
///     log.info("step ", step, ": loss ", loss);
class Log {
 public:
  /// Writes lines of at least `level` to stderr. Lines carry `rank` when `world_size` is more than one.
  explicit Log(LogLevel level = LogLevel::info, int rank = 0, int world_size = 1);
  /// The same to `out`, which must outlive the logger and its copies; for tests.
  Log(std::ostream& out, LogLevel level, int rank = 0, int world_size = 1);

  template <class... Parts>
  void debug(const Parts&... parts) const {
    put(LogLevel::debug, parts...);
  }
  template <class... Parts>
  void info(const Parts&... parts) const {
    put(LogLevel::info, parts...);
  }
  template <class... Parts>
  void warning(const Parts&... parts) const {
    put(LogLevel::warning, parts...);
  }
  template <class... Parts>
  void error(const Parts&... parts) const {
    put(LogLevel::error, parts...);
  }

  bool enabled(LogLevel level) const noexcept;
  /// From now on each line is also written to `out`, with its date, and flushed. `out` must outlive the logger and its
  /// copies. [setup: before the logger is used by other threads]
  void copy_to(std::ostream& out) const;
  /// Whether set_status() shows anything: lines of level info go to a terminal that can erase a line.
  bool has_status() const noexcept;
  /// Shows `text` as the last line of the terminal, cut to its width, below all lines of the log, until the next call;
  /// empty: removes the line. Does nothing without has_status().
  void set_status(std::string_view text) const;
  /// One line, as printable() makes it. No text can forge the head of a line; one with a newline and two blanks can
  /// forge a line that continues it.
  void write(LogLevel level, std::string_view line) const;

 private:
  template <class... Parts>
  void put(LogLevel level, const Parts&... parts) const {
    if (enabled(level)) write(level, concat(parts...));
  }

  struct Sink;
  std::shared_ptr<Sink> sink_;
};

/// "tessera: <text>" on stderr, printable, in a single write: lines of several processes do not mix. For the sentence
/// that a command ends with, whatever the level of its log. [any-thread]
void print_error(std::string_view text);

}  // namespace tessera::host
