// Collects all files that a job reads (model, data, plugins), so that an output can be refused that would overwrite
// one, or that the next run would read (base/output_file.h). Each output has a test by its first bytes for what may be
// replaced: metrics and traces, drawings and rates that tessera wrote. Two outputs may not be one file either.
//
// Checks come before any rank is started, and again when a file is opened: in between hours may pass.

#include "cli/outputs.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/output_file.h"
#include "base/read_only_file.h"
#include "checkpoint/index.h"
#include "checkpoint/save_folder.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "data/examples/idx_pair.h"
#include "data/file_list.h"
#include "model/model_name.h"
#include "plan/drawing/step_svg.h"
#include "rates/rates.h"
#include "record/environment.h"
#include "record/run_folder.h"
#include "trace/gzip.h"
#include "trace/write_trace.h"
#include "weights/weight_files.h"

namespace tessera::host {
namespace {

JobInput model_input(const std::string& model) {
  JobInput input = {"--model", model};
  if (!is_model_folder(model)) return input;
  input.would_read = [model](const std::string& path) {
    std::error_code not_there;
    const std::filesystem::path file = std::filesystem::absolute(path, not_there);
    return std::filesystem::equivalent(file.parent_path(), model, not_there) &&
           looks_like_weights(file.filename().string());
  };
  return input;
}

/// The files that `flag` names.
std::vector<JobInput> data_inputs(const Job& job, const char* flag, const std::string& data) {
  if (data.empty()) return {};
  if (std::holds_alternative<ExampleInputs>(job.architecture().inputs()))
    if (const auto pair = find_idx_pair(data, flag)) return {{flag, pair->images, true}, {flag, pair->labels, true}};
  std::error_code unknown;
  if (!is_pattern(data) || std::filesystem::exists(data, unknown)) return {{flag, data, true}};
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

/// With those that only the command line names, and checkpoints.
std::vector<JobInput> inputs_of(const Job& job, const ParsedFlags& flags) {
  std::vector<JobInput> inputs = inputs_of(job);
  const auto add = [&](const char* flag, std::string_view path) {
    if (!path.empty()) inputs.push_back({flag, std::string(path)});
  };
  add("--config", flags.config_file);
  add("--trace", flags.plan.trace);
  if (flags.set == FlagSet::plan)
    for (const std::string_view rates : split(flags.plan.rates, ','))
      add("--rates", rates);
  const auto add_checkpoints = [&](const char* flag, const std::string& given) {
    if (given.empty()) return;
    for (const std::string& folder : choose_checkpoint(given).folders)
      add(flag, folder);
  };
  add_checkpoints("--resume", job.config.resume);
  add_checkpoints(job.trains ? "--init-from" : "--model", job.config.init_from);
  return inputs;
}

Output metrics_output(const Job& job, std::vector<JobInput> inputs) {
  return {.flag = "--metrics",
          .path = job.config.metrics,
          .old = Output::Old::append,
          .is_ours = begins_like_metrics,
          .overwrite = job.config.overwrite,
          .inputs = std::move(inputs)};
}

Output trace_output(const Job& job, std::vector<JobInput> inputs) {
  return {.flag = "--profile-out",
          .path = trace_path(job.config),
          .is_ours = begins_like_trace,
          .overwrite = job.config.overwrite,
          .inputs = std::move(inputs),
          .made_folder = job.config.out};
}

Output svg_output(const Job& job, const std::string& path, std::vector<JobInput> inputs) {
  return {.flag = "--svg",
          .path = path,
          .is_ours = begins_like_step_svg,
          .overwrite = job.config.overwrite,
          .inputs = std::move(inputs)};
}

Output rates_output(const Job& job, const std::string& path, std::vector<JobInput> inputs) {
  return {.flag = "--rates",
          .path = path,
          .is_ours = begins_like_rates,
          .overwrite = job.config.overwrite,
          .inputs = std::move(inputs)};
}

void refuse(const std::string& refusal) {
  if (!refusal.empty()) throw UsageError(refusal);
}

void check(const Output& output) {
  refuse(refusal_of(output));
}

/// Whether both are one file, which need not exist yet. A device, such as /dev/null, takes any number of outputs.
bool is_one_file(const std::string& a, const std::string& b) {
  if (is_standard_output(a) || is_standard_output(b)) return is_standard_output(a) && is_standard_output(b);
  std::error_code error;
  if (std::filesystem::exists(a, error) && !std::filesystem::is_regular_file(a, error)) return false;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto path_of = [](const std::string& path) {
    std::error_code unknown;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path), unknown);
  };
  return !path_of(a).empty() && path_of(a) == path_of(b);
}

/// Why `flag` may not write this file beside --out; empty: it may.
std::string refusal_beside_record(const std::string& out, const std::string& flag, const std::string& path) {
  std::vector<std::string> names = {std::string(kConfigFile), std::string(kMetricsFile), std::string(kPlanText),
                                    std::string(kPlanJson), std::string(kStepDrawing)};
  if (const std::string name = std::filesystem::path(path).filename(); name.starts_with("log.rank"))
    names.push_back(name);
  for (const std::string& name : names)
    if (is_one_file(path, std::filesystem::path(out) / name))
      return concat(flag, " ", path, " is a file that --out ", out, " writes too; give another file, or leave ", flag,
                    " out");
  return "";
}

bool is_checkpoint(const std::filesystem::path& folder) {
  return beginning_of((folder / kIndexName).string(), kIndexBegin.size()) == kIndexBegin;
}

/// A checkpoint has its own files alone.
std::string refusal_of_checkpoint(const std::string& flag, const std::string& folder) {
  if (folder.empty() || !is_checkpoint(folder)) return "";
  return concat(flag, " ", folder, " is a checkpoint, which has ", kIndexName, "; give another folder");
}

void check_distinct(const TrainConfig& config) {
  const std::string trace = config.profile ? trace_path(config) : "";
  if (!trace.empty() && !config.metrics.empty() && is_one_file(config.metrics, trace))
    throw UsageError(concat("--metrics ", config.metrics, " and --profile-out ", trace,
                            " are one file; give another for one of them"));
  for (const auto& [flag, path] : {std::pair("--metrics", config.metrics), std::pair("--profile-out", trace)})
    if (!path.empty() && !config.save.empty() && is_one_file(path, std::filesystem::path(config.save) / kSaveLock))
      throw UsageError(concat(flag, " ", path, " has the name of the lock of --save ", config.save,
                              ", which is removed when the run ends; give another name"));
  if (config.out.empty()) return;
  if (!config.metrics.empty()) refuse(refusal_beside_record(config.out, "--metrics", config.metrics));
  if (!trace.empty()) refuse(refusal_beside_record(config.out, "--profile-out", trace));
}

/// The same file when the folder that the run was started in is gone: links are followed now, but not one that the file
/// itself is.
std::string from_anywhere(const std::string& path) {
  if (is_standard_output(path) || std::filesystem::path(path).is_absolute()) return path;
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  if (error) return path;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(file.parent_path(), error);
  return error ? path : (folder / file.filename()).string();
}

/// Metrics up to the first line that cannot be written: what the run has done is saved before it ends with the error.
struct StoppingMetrics {
  std::unique_ptr<MetricsWriter> writer;
  std::string error;

  template <class Line>
  void write(const Line& line) {
    if (!error.empty()) return;
    try {
      writer->write(line);
    } catch (const Error& failure) {
      error = failure.what();
    }
  }
};

}  // namespace

void refuse_inside_checkpoint(const std::string& flag, const std::string& path) {
  if (path.empty() || path == "-") return;
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // it ends in a slash
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    if (is_checkpoint(folder))
      throw UsageError(
          concat(flag, " ", path, " is in a checkpoint, which has its own files alone; give another folder"));
  }
}

void check_outputs(const Job& job, const ParsedFlags& flags) {
  const TrainConfig& config = job.config;
  const std::vector<JobInput> inputs = inputs_of(job, flags);
  check_distinct(config);
  if (!config.metrics.empty()) check(metrics_output(job, inputs));
  if (config.profile) check(trace_output(job, inputs));
  for (const auto& [flag, folder] : {std::pair("--save", config.save), std::pair("--out", config.out)})
    refuse(refusal_of_checkpoint(flag, folder));
  for (const auto& [flag, path] :
       {std::pair("--save", config.save), std::pair("--out", config.out), std::pair("--metrics", config.metrics),
        std::pair("--profile-out", config.profile ? trace_path(config) : "")})
    refuse_inside_checkpoint(flag, path);
  if (!config.out.empty()) refuse(refusal_of_record(config.out, !config.resume.empty(), config.overwrite, inputs));
  if (!config.save.empty()) refuse(refusal_of_folder("--save", config.save, inputs));
  if (!config.save.empty() && is_model_folder(config.model) && is_same_folder(config.save, config.model))
    throw UsageError(concat("--save ", config.save, " is the folder of --model, which would then mean its newest ",
                            "checkpoint; give another folder"));
}

RankObserver write_outputs(const Job& job, int rank) {
  RankObserver observer;
  if (rank != 0) return observer;
  Output traced = trace_output(job, inputs_of(job));
  traced.path = from_anywhere(traced.path);  // it is opened after the steps of --profile; metrics before the first one
  observer.on_trace = [output = std::move(traced)](const std::string& trace) {
    write_output(output, {output.path.ends_with(".gz") ? gzip(trace) : trace});
  };
  if (job.config.metrics.empty()) return observer;
  const auto metrics = std::make_shared<StoppingMetrics>();
  observer.on_start = [metrics, output = metrics_output(job, inputs_of(job))](RunMetrics run) {
    run.version = TESSERA_VERSION;
    run.environment = run_environment();
    metrics->writer = std::make_unique<MetricsWriter>(output, run);
  };
  observer.on_step = [metrics](const StepMetrics& step) { metrics->write(step); };
  observer.on_save = [metrics](const SaveMetrics& save) { metrics->write(save); };
  observer.on_eval = [metrics](const EvalMetrics& evaluation) { metrics->write(evaluation); };
  observer.output_error = [metrics] { return metrics->error; };
  return observer;
}

void check_svg(const Job& job, const ParsedFlags& flags) {
  check(svg_output(job, flags.plan.svg, inputs_of(job, flags)));
  refuse_inside_checkpoint("--svg", flags.plan.svg);
}

void write_svg(const Job& job, const std::string& path, const std::string& drawing) {
  write_output(svg_output(job, path, inputs_of(job)), {drawing});
}

void check_rates(const Job& job, const ParsedFlags& flags) {
  check(rates_output(job, flags.plan.rates, inputs_of(job, flags)));
  refuse_inside_checkpoint("--rates", flags.plan.rates);
}

void write_rates(const Job& job, const std::string& path, const std::string& rates) {
  write_output(rates_output(job, path, inputs_of(job)), {rates});
}

}  // namespace tessera::host
