// Metrics as JSON lines: one object for the run, then one per step, evaluation and checkpoint. A file can be read while
// it grows, and may hold several runs, distinguished by `run`. Doubles read back to the same bits. JSON has no NaN and
// no infinity: such a number becomes null, and `not_finite` lists its name.
//
//     {"run":"20261124-101500-0a1b2c3d","kind":"run","started":"2026-11-24T10:15:00Z", ...}
//     {"run":"20261124-101500-0a1b2c3d","step":1,"loss":10.93,"grad_norm":2.1, ...}
//     {"run":"20261124-101500-0a1b2c3d","step":2,"loss":null, ...,"not_finite":["loss"]}
//     {"run":"20261124-101500-0a1b2c3d","kind":"save","saved_step":2, ...}

#include "base/metrics.h"

#include <cmath>
#include <ctime>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <random>

#include "base/concat.h"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

/// The beginning of every line; the name of the run follows.
constexpr std::string_view kBegin = R"({"run":")";

std::string dump(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);  // a path need not be UTF-8
}

/// One line; what is not finite becomes null, and is listed.
std::string finished(Json line) {
  Json not_finite = Json::array();
  for (const auto& [name, value] : line.items())
    if (value.is_number_float() && !std::isfinite(value.get<double>())) not_finite.push_back(name);
  if (!not_finite.empty()) line["not_finite"] = not_finite;
  return dump(line);
}

}  // namespace

void name_run(RunMetrics& run) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  run.started = concat(std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ"));
  // Two runs may start in one second, on machines that share a folder.
  std::random_device random;
  run.run = concat(std::put_time(&utc, "%Y%m%d-%H%M%S-"), std::hex, std::setfill('0'), std::setw(8), random());
}

std::string to_json_line(const RunMetrics& r) {
  Json planned = Json::object();
  for (const auto& [name, num_bytes] : r.planned_bytes)
    planned[name] = num_bytes;
  Json line = {{"run", r.run},
               {"kind", "run"},
               {"started", r.started},
               {"tessera", r.version},
               {"model", r.model},
               {"mesh", r.mesh},
               {"world_size", r.world_size},
               {"steps", r.steps},
               {r.items + "_per_step", r.tokens_per_step},
               {"planned_peak_bytes", r.planned_peak_bytes},
               {"planned_bytes", planned}};
  if (r.resumed_step) line["resumed_step"] = r.resumed_step;
  if (r.load_ms > 0) line["load_ms"] = r.load_ms;
  for (const auto& [name, value] : r.environment)
    line["environment"][name] = value;
  return dump(line);
}

std::string to_json_line(const StepMetrics& m, const std::string& run) {
  Json line = {{"run", run},
               {"step", m.step},
               {"loss", m.loss},
               {"grad_norm", m.grad_norm},
               {"lr", m.lr},
               {"loss_scale", m.loss_scale},
               {"updated", m.updated},
               {"time", m.seconds},
               {"step_ms", m.step_ms},
               {m.items + "_per_second", m.tokens_per_second},
               {m.items, m.tokens},
               {"memory_bytes", m.memory_bytes},
               {"peak_memory_bytes", m.peak_memory_bytes}};
  if (m.fetched_bytes) line["fetched_bytes"] = *m.fetched_bytes;
  if (m.evicted_bytes) line["evicted_bytes"] = *m.evicted_bytes;
  if (m.file_read_bytes) line["file_read_bytes"] = *m.file_read_bytes;
  if (m.file_written_bytes) line["file_written_bytes"] = *m.file_written_bytes;
  if (m.file_busy_ms) line["file_busy_ms"] = *m.file_busy_ms;
  if (m.accuracy) line["accuracy"] = *m.accuracy;
  return finished(std::move(line));
}

std::string to_json_line(const EvalMetrics& m, const std::string& run) {
  Json line = {{"run", run}, {"kind", "eval"}, {"after_step", m.after_step}, {"loss", m.loss}};
  if (m.perplexity) line["perplexity"] = *m.perplexity;
  if (m.bits_per_byte) line["bits_per_byte"] = *m.bits_per_byte;
  if (m.accuracy) line["accuracy"] = *m.accuracy;
  line[m.items] = m.num_items;
  line["eval_seconds"] = m.seconds;
  return finished(std::move(line));
}

std::string to_json_line(const SaveMetrics& save, const std::string& run) {
  Json line = {{"run", run},
               {"kind", "save"},
               {"saved_step", save.step},
               {"save_ms", save.ms},
               {"pause_ms", save.pause_ms},
               {"bytes", save.num_bytes}};
  if (!save.error.empty()) line["error"] = save.error;
  return dump(line);
}

bool begins_like_metrics(std::string_view begin) {
  return begin.starts_with(kBegin);
}

MetricsWriter::MetricsWriter(const Output& output, const RunMetrics& run) : out_(output), run_(run.run) {
  out_.write((out_.ends_in_half_line() ? "\n" : "") + to_json_line(run) + "\n");
}

void MetricsWriter::write(const StepMetrics& step) {
  out_.write(to_json_line(step, run_) + "\n");
}

void MetricsWriter::write(const SaveMetrics& save) {
  out_.write(to_json_line(save, run_) + "\n");
}

void MetricsWriter::write(const EvalMetrics& evaluation) {
  out_.write(to_json_line(evaluation, run_) + "\n");
}

}  // namespace tessera::host
