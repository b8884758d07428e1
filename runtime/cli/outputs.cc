// Collects all files that a job reads (model, data, plugins), so that an output can be refused that would overwrite
// one, or that the next run would read (base/output_file.h).

#include "cli/outputs.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>

#include "base/output_file.h"
#include "config/usage_error.h"
#include "data/examples/idx_pair.h"
#include "data/file_list.h"
#include "model/model_name.h"
#include "plan/step_svg.h"
#include "rates/rates.h"
#include "record/environment.h"
#include "record/run_folder.h"
#include "weights/weight_files.h"

namespace tessera::host {
namespace {

JobInput model_input(const std::string& model) {
  JobInput input = {"--model", model};
  if (!is_model_folder(model)) return input;
  input.would_read = [model](const std::string& path) {
    const std::filesystem::path file = std::filesystem::absolute(path);
    std::error_code not_there;
    return std::filesystem::equivalent(file.parent_path(), model, not_there) &&
           looks_like_weights(file.filename().string());
  };
  return input;
}

/// The files that `flag` names.
std::vector<JobInput> data_inputs(const Job& job, const char* flag, const std::string& data) {
  if (data.empty()) return {};
  if (std::holds_alternative<ExampleInputs>(job.architecture().inputs()))
    if (const auto pair = find_idx_pair(data)) return {{flag, pair->images, true}, {flag, pair->labels, true}};
  if (!is_pattern(data) || std::filesystem::exists(data)) return {{flag, data, true}};
  std::vector<JobInput> inputs = {
      {flag, data, false, [data](const std::string& path) { return would_match(data, path); }}};
  for (const std::string& path : paths_matching(data))
    inputs.push_back({flag, path, true});
  return inputs;
}

std::vector<JobInput> inputs_of(const Job& job) {
  std::vector<JobInput> inputs = data_inputs(job, "--data", job.config.data);
  std::ranges::move(data_inputs(job, "--eval-data", job.config.eval_data), std::back_inserter(inputs));
  inputs.insert(inputs.begin(), model_input(job.config.model));
  const auto plugin = [&](const char* flag, const LoadedPlugin& p) { inputs.push_back({flag, p.path}); };
  plugin("--device", job.plugins.device);
  plugin("--device", job.plugins.cpu);
  if (job.plugins.communicator) plugin("--comm", *job.plugins.communicator);
  for (const auto& strategy : job.plugins.strategies)
    if (strategy) plugin("--strategy", *strategy);
  for (const LoadedPlugin& policy : job.plugins.offload)
    plugin("--offload", policy);
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

Output rates_output(const Job& job, const std::string& path) {
  return {.flag = "--rates",
          .path = path,
          .is_ours = begins_like_rates,
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

void check_save(const Job& job) {
  if (job.config.save.empty()) return;
  if (const std::string refusal = refusal_of_folder("--save", job.config.save, inputs_of(job)); !refusal.empty())
    throw UsageError(refusal);
}

void check_record(const Job& job) {
  const TrainConfig& config = job.config;
  if (config.out.empty()) return;
  const std::string refusal = refusal_of_record(config.out, !config.resume.empty(), config.overwrite, inputs_of(job));
  if (!refusal.empty()) throw UsageError(refusal);
}

RankObserver write_metrics(const Job& job, int rank) {
  RankObserver observer;
  if (rank != 0 || job.config.metrics.empty()) return observer;
  const auto writer = std::make_shared<std::unique_ptr<MetricsWriter>>();
  observer.on_start = [writer, output = metrics_output(job)](RunMetrics run) {
    run.version = TESSERA_VERSION;
    run.environment = run_environment();
    *writer = std::make_unique<MetricsWriter>(output, run);
  };
  observer.on_step = [writer](const StepMetrics& step) { (*writer)->write(step); };
  observer.on_save = [writer](const SaveMetrics& save) { (*writer)->write(save); };
  observer.on_eval = [writer](const EvalMetrics& evaluation) { (*writer)->write(evaluation); };
  return observer;
}

void check_svg(const Job& job, const std::string& path) {
  check(svg_output(job, path));
}

void write_svg(const Job& job, const std::string& path, const std::string& drawing) {
  OutputFile(svg_output(job, path)).write(drawing);
}

void check_rates(const Job& job, const std::string& path) {
  check(rates_output(job, path));
}

void write_rates(const Job& job, const std::string& path, const std::string& rates) {
  OutputFile(rates_output(job, path)).write(rates);
}

}  // namespace tessera::host
