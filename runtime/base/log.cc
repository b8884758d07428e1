// The log, by spdlog, on standard error: standard output is for results (plans, JSON). Each rank has its own logger,
// since ranks may be threads of one process; lines are flushed at once, since a rank may be killed.

#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

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
};

Log::Log(LogLevel level, int rank, int world_size)
    : sink_(std::make_shared<Sink>(std::make_shared<spdlog::sinks::stderr_color_sink_mt>(), level, rank, world_size)) {}

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

void Log::write(LogLevel level, std::string_view line) const {
  sink_->logger.log(to_spdlog(level), printable(line));
}

void print_error(std::string_view text) {
  const std::string line = "tessera: " + printable(text) + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // standard error is closed
}

}  // namespace tessera::host
