#include "cli/outputs.h"

#include <filesystem>
#include <memory>

#include "config/usage_error.h"
#include "data/file_list.h"
#include "observe/output_file.h"
#include "train/step_svg.h"

namespace tessera {
namespace {

std::vector<std::string> data_files(const std::string& data) {
  if (data.empty()) return {};
  if (is_pattern(data) && !std::filesystem::exists(data)) return files_matching(data);
  return {data};
}

std::vector<JobInput> inputs_of(const Job& job) {
  std::vector<JobInput> inputs = {{"--model", job.config.model}};
  for (const std::string& path : data_files(job.config.data))
    inputs.push_back({"--data", path, true});
  const auto plugin = [&](const char* flag, const LoadedPlugin& p) { inputs.push_back({flag, p.path}); };
  plugin("--device", job.plugins.device);
  plugin("--device", job.plugins.cpu);
  if (job.plugins.communicator) plugin("--comm", *job.plugins.communicator);
  for (const auto& strategy : job.plugins.strategies)
    if (strategy) plugin("--strategy", *strategy);
  return inputs;
}

Output metrics_output(const Job& job) {
  return {.flag = "--metrics",
          .path = job.config.metrics,
          .old = Output::Old::append,
          .is_ours = begins_like_metrics,
          .overwrite = job.config.overwrite,
          .inputs = inputs_of(job)};
}

Output svg_output(const Job& job, const std::string& path) {
  return {.flag = "--svg",
          .path = path,
          .is_ours = begins_like_step_svg,
          .overwrite = job.config.overwrite,
          .inputs = inputs_of(job)};
}

void check(const Output& output) {
  if (const std::string refusal = refusal_of(output); !refusal.empty()) throw UsageError(refusal);
}

}  // namespace

void check_metrics(const Job& job, int rank) {
  if (rank == 0 && !job.config.metrics.empty()) check(metrics_output(job));
}

RankObserver write_metrics(const Job& job, int rank) {
  RankObserver observer;
  if (rank != 0 || job.config.metrics.empty()) return observer;
  const auto writer = std::make_shared<std::unique_ptr<MetricsWriter>>();
  observer.on_start = [writer, output = metrics_output(job)](RunMetrics run) {
    run.version = TESSERA_VERSION;
    *writer = std::make_unique<MetricsWriter>(output, run);
  };
  observer.on_step = [writer](const StepMetrics& step) { (*writer)->write(step); };
  return observer;
}

void check_svg(const Job& job, const std::string& path) {
  check(svg_output(job, path));
}

void write_svg(const Job& job, const std::string& path, const std::string& drawing) {
  OutputFile(svg_output(job, path)).write(drawing);
}

}  // namespace tessera
