// Reads the files of --out. The metrics are lines of JSON, and "kind" tells what a line is of; that of a step has none:
//
//     {"run":"20261124-101500-0a1b2c3d","kind":"run","model":"gpt2","steps":1000,"resumed_step":400, ...}
//     {"run":"20261124-101500-0a1b2c3d","step":401,"loss":3.91, ...}
//     {"run":"20261124-101500-0a1b2c3d","kind":"eval","after_step":500,"loss":3.8, ...}
//
// A killed run may have left half a line, which the next run has completed; so lines that are not JSON are counted and
// skipped. A resumed run repeats the steps after its checkpoint: their earlier values are dropped.

#include "report/recorded_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/metrics.h"
#include "base/progress.h"
#include "base/read_only_file.h"
#include "config/usage_error.h"
#include "plan/drawing/step_svg.h"
#include "record/run_folder.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxBytes = 64 << 20;
constexpr uint64_t kMaxLineBytes = 1 << 20;  ///< of the metrics; ours have a few hundred
constexpr int kMaxDepth = 16;                ///< of what is shown; printing a value takes stack for each level

/// Discarded if it is not JSON. A folder may come from elsewhere: what is nested deeper is left out.
Json parsed(const std::string& text) {
  return Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; }, false);
}

std::string text_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t integer_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

/// A value as text for a table.
std::string shown(const Json& value) {
  if (value.is_null()) return "not set";
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Facts facts_of(const Json& object) {
  Facts facts;
  if (object.is_object())
    for (const auto& [name, value] : object.items())
      facts.emplace_back(name, shown(value));
  return facts;
}

/// A step that the curve already has is skipped, so the steps of a curve always ascend.
void add(Curve& curve, int64_t step, const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || (!curve.steps.empty() && curve.steps.back() >= step)) return;
  curve.steps.push_back(step);
  curve.values.push_back(found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN());
}

void drop_after(Curve& curve, int64_t step) {
  const auto end = std::ranges::upper_bound(curve.steps, step);
  curve.values.resize(static_cast<size_t>(end - curve.steps.begin()));
  curve.steps.erase(end, curve.steps.end());
}

void take_start(RecordedRun& run, const Json& line) {
  const int64_t resumed = integer_of(line, "resumed_step");
  for (auto& [name, curve] : run.curves)
    drop_after(curve, resumed);
  run.last_step = std::min(run.last_step, resumed);
  run.seconds = 0;
  run.starts.push_back({text_of(line, "run"), text_of(line, "started"), resumed});
  run.model = text_of(line, "model");
  run.mesh = text_of(line, "mesh");
  run.world_size = integer_of(line, "world_size");
  run.num_steps = integer_of(line, "steps");
  run.items = line.contains("examples_per_step") ? "examples" : "tokens";
  run.environment = {{"tessera", text_of(line, "tessera")}};
  if (const auto found = line.find("environment"); found != line.end())
    std::ranges::copy(facts_of(*found), std::back_inserter(run.environment));
}

void take_step(RecordedRun& run, const Json& line) {
  const int64_t step = integer_of(line, "step");
  for (const char* key : {"loss", "accuracy", "grad_norm", "lr", "memory_bytes", "peak_memory_bytes"})
    add(run.curves[key], step, line, key);
  add(run.curves["per_second"], step, line, (run.items + "_per_second").c_str());
  run.last_step = std::max(run.last_step, step);
  if (const auto time = line.find("time"); time != line.end() && time->is_number()) run.seconds = time->get<double>();
}

void take_line(RecordedRun& run, const Json& line) {
  const std::string kind = text_of(line, "kind");
  if (kind == "run") take_start(run, line);
  if (kind.empty() && line.contains("step")) take_step(run, line);
  if (kind != "eval") return;
  const int64_t step = integer_of(line, "after_step");
  add(run.curves["eval loss"], step, line, "loss");
  add(run.curves["eval accuracy"], step, line, "accuracy");
}

/// A file of the record itself. The folder may come from elsewhere, with links that would take other files of this
/// machine into a page that is passed on.
bool is_own_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::regular;
}

bool has_metrics(const std::string& path) {
  if (!is_own_file(path)) return false;  // a FIFO would wait for its writer
  return begins_like_metrics(beginning_of(path, Output::kJudgedBytes));
}

/// The next line, of which `text` has no more than one byte beyond the limit. Returns its bytes, with the newline; 0 at
/// the end.
uint64_t take_text(std::ifstream& in, std::string& text) {
  text.clear();
  uint64_t size = 0;
  for (int c; (c = in.rdbuf()->sbumpc()) != std::char_traits<char>::eof();) {
    ++size;
    if (c == '\n') return size;
    if (text.size() <= kMaxLineBytes) text.push_back(static_cast<char>(c));
  }
  in.setstate(std::ios::eofbit);
  return size;
}

void read_metrics(RecordedRun& run, const std::string& path, const Log& log) {
  constexpr int kMiB = 20;  // as a shift
  std::error_code unknown;
  const uint64_t num_bytes = std::filesystem::file_size(path, unknown);
  uint64_t num_read = 0;
  Progress progress(log, concat("reading ", num_bytes >> kMiB, " MiB of metrics"));
  std::ifstream in(path, std::ios::binary);
  for (std::string text; uint64_t size = take_text(in, text);) {
    progress.at((num_read += size) >> kMiB, num_bytes >> kMiB);
    const Json line = size > kMaxLineBytes ? Json() : parsed(text);
    if (line.is_object())
      take_line(run, line);
    else if (!in.eof() && size > 1)
      ++run.num_unreadable;
  }
}

/// Empty if it cannot be read.
std::string text_file(const std::string& path) {
  if (!is_own_file(path)) return "";
  try {
    return read_text_file(path, kMaxBytes);
  } catch (const Error&) {
    return "";
  }
}

/// The last lines of a file, 20 and 16 KiB at most. Empty if it cannot be read.
std::string last_lines(const std::string& path) {
  constexpr std::streamoff kMaxLogBytes = 16 << 10;
  constexpr int kMaxLines = 20;
  if (!is_own_file(path)) return "";
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg(), begin = std::max<std::streamoff>(0, size - kMaxLogBytes);
  std::string text(static_cast<size_t>(std::max<std::streamoff>(0, size - begin)), '\0');
  in.seekg(begin).read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  while (text.ends_with('\n'))
    text.pop_back();
  size_t at = text.size();
  for (int lines = 0; lines < kMaxLines && at != text.npos && at > 0; ++lines)
    at = text.rfind('\n', at - 1);
  return at == text.npos || at == 0 ? text : text.substr(at + 1);
}

/// Whether the rank says so since it has begun for the last time.
bool has_failed(const std::string& log) {
  const size_t begin = log.rfind(kBegins);
  return log.find(concat(" note: ", kFails), begin == log.npos ? 0 : begin) != log.npos;
}

std::vector<LogEnd> log_ends(const std::filesystem::path& folder, int64_t num_ranks) {
  constexpr int64_t kMaxRanks = 4096;  // the folder may say anything
  constexpr size_t kMaxLogs = 8;
  std::vector<LogEnd> logs;
  for (int rank = 0; rank < std::min(num_ranks, kMaxRanks) && logs.size() < kMaxLogs; ++rank) {
    const std::string text = last_lines(folder / log_file_name(rank));
    if (!text.empty() && (rank == 0 || has_failed(text))) logs.push_back({rank, text});
  }
  return logs;
}

}  // namespace

RecordedRun read_recorded_run(const std::string& folder, const Log& log) {
  const auto path = [&](std::string_view name) { return (std::filesystem::path(folder) / name).string(); };
  const std::string metrics = path(kMetricsFile);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw UsageError(concat(folder, " is not a folder; give the folder of a run's --out"));
  if (!has_metrics(metrics))
    throw UsageError(concat(folder, " has no ", kMetricsFile, " that tessera wrote; give the folder of a run's --out"));
  RecordedRun run;
  run.folder = folder;
  read_metrics(run, metrics, log);
  std::erase_if(run.curves, [](const auto& named) { return named.second.steps.empty(); });
  run.settings = facts_of(parsed(text_file(path(kConfigFile))));
  run.plan = text_file(path(kPlanText));
  run.logs = log_ends(folder, run.world_size);
  if (const std::string drawing = text_file(path(kStepDrawing));
      begins_like_step_svg(drawing.substr(0, Output::kJudgedBytes)) && drawing.find("<svg ") != drawing.npos)
    run.drawing = drawing;
  return run;
}

}  // namespace tessera::host
