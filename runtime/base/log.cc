// The log, by spdlog, on standard error: standard output is for results (plans, JSON). Each rank has its own logger,
// since ranks may be threads of one process; lines are written at once, since a rank may be killed, and each with one
// write, since ranks share a terminal (base/terminal.cc).
//
//     [10:15:00.123] [rank 1] info: reading data          [rank 1] only where there are several

#include "base/log.h"

#include <string>

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/ostream_sink.h>

#include "base/terminal.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

constexpr std::string_view color_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return "\x1b[36m";
    case spdlog::level::warn:
      return "\x1b[33m\x1b[1m";
    case spdlog::level::err:
      return "\x1b[31m\x1b[1m";
    default:
      return "\x1b[32m";
  }
}

/// Lines on standard error, above the status line if there is one.
class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ~StandardErrorSink() override { set_status(""); }

  void set_status(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const std::string before = std::move(status_);
    status_ = is_in_foreground() ? first_columns(text, terminal_columns() - 1) : "";
    if (!before.empty() || !status_.empty()) write_status(std::string(clear_line()) + status_);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    const std::string_view line(formatted.data(), formatted.size());
    std::string text(is_in_foreground() ? clear_line() : "");
    if (standard_error().has_colors && message.color_range_end > message.color_range_start) {
      text += line.substr(0, message.color_range_start);
      text += color_of(message.level);
      text += line.substr(message.color_range_start, message.color_range_end - message.color_range_start);
      text += "\x1b[0m";
      text += line.substr(message.color_range_end);
    } else {
      text += line;
    }
    write_standard_error(is_in_foreground() ? text + status_ : text);
  }
  void flush_() override {}

 private:
  std::string status_;  // guarded by base_sink's mutex_
};

}  // namespace

LogLevel parse_log_level(std::string_view name) {
  if (name == "debug") return LogLevel::debug;
  if (name == "info") return LogLevel::info;
  if (name == "warning") return LogLevel::warning;
  if (name == "error") return LogLevel::error;
  if (name == "off") return LogLevel::off;
  throw Error(TSR_E_INVALID_ARGUMENT, concat("'", name, "' is not a log level; give one of ", kLogLevelNames));
}

// A logger of spdlog's own, outside its global registry.
struct Log::Sink {
  Sink(spdlog::sink_ptr sink, LogLevel level, int rank, int world_size) : logger("", std::move(sink)) {
    logger.set_level(to_spdlog(level));
    logger.flush_on(spdlog::level::debug);
    // A single rank needs no name.
    const std::string who = world_size > 1 ? concat("[rank ", rank, "] ") : "";
    logger.set_pattern("[%H:%M:%S.%e] " + who + "%^%l%$: %v");
  }
  spdlog::logger logger;
  std::shared_ptr<StandardErrorSink> terminal;  // null: the lines go somewhere else
};

Log::Log(LogLevel level, int rank, int world_size) {
  auto terminal = std::make_shared<StandardErrorSink>();
  sink_ = std::make_shared<Sink>(terminal, level, rank, world_size);
  sink_->terminal = std::move(terminal);
}

Log::Log(std::ostream& out, LogLevel level, int rank, int world_size)
    : sink_(std::make_shared<Sink>(std::make_shared<spdlog::sinks::ostream_sink_mt>(out, true), level, rank,
                                   world_size)) {}

bool Log::enabled(LogLevel level) const noexcept {
  return sink_->logger.should_log(to_spdlog(level));
}

void Log::copy_to(std::ostream& out) const {
  auto copy = std::make_shared<spdlog::sinks::ostream_sink_mt>(out, true);
  copy->set_pattern("[%Y-%m-%d %H:%M:%S.%e] %l: %v");
  sink_->logger.sinks().push_back(std::move(copy));
}

bool Log::has_status() const noexcept {
  return sink_->terminal && standard_error().redraws && enabled(LogLevel::info);
}

void Log::set_status(std::string_view text) const {
  if (has_status()) sink_->terminal->set_status(printable(text));
}

void Log::write(LogLevel level, std::string_view line) const {
  sink_->logger.log(to_spdlog(level), printable(line));
}

void print_error(std::string_view text) {
  write_standard_error(concat(clear_line(), "tessera: ", printable(text), "\n"));
}

}  // namespace tessera::host
