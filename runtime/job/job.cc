// From flags to a Job: plugins, mesh, model, the configuration of a step. All of it is equal on all ranks, since it
// depends on flags and files only; what differs between ranks (device index, streams, per-rank options) is added later,
// in train_rank.cc. Each part depends on the one before: axes name the strategies, strategies declare what their axes
// split, and the mesh follows from that.
//
// Everything that can be refused is refused here, within a second, before any rank is started.

#include "job/job.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/concat.h"
#include "base/progress.h"
#include "config/usage_error.h"
#include "data/examples/example_dataset.h"
#include "data/examples/example_source.h"
#include "data/examples/idx_pair.h"
#include "data/file_list.h"
#include "data/token_dataset.h"
#include "exec/device.h"
#include "guard/call_watch.h"
#include "guard/process_state.h"
#include "machine/core_binding.h"
#include "model/freeze.h"
#include "model/initial_values.h"
#include "model/model_name.h"
#include "program/collective.h"
#include "weights/hf_folder.h"
#include "weights/weight_files.h"

namespace tessera::host {
namespace {

/// Comm streams belong to the first of {the job's device, the CPU} whose streams the communicator supports.
void place_comm_streams(Job& job) {
  // nccl runs on the device's streams, gloo only on the host's. On the host's, collectives are staged through host
  // memory (passes/host_staging.cc), and the device's streams must be able to wait for the host.
  if (!job.plugins.communicator || job.mesh.num_ranks() == 1) return;
  const LoadedPlugin &device = job.plugins.device, &communicator = *job.plugins.communicator;
  const tsr_str kind = device.device()->stream_kind, host_kind = job.plugins.cpu.device()->stream_kind;
  std::string reason;
  auto claims = claims_on(*communicator.communicator(), communicator.name, kind, reason);
  const bool has_other_streams = view(kind) != view(host_kind);
  if (!claims && has_other_streams) {
    claims = claims_on(*communicator.communicator(), communicator.name, host_kind, reason);
    job.staged.collectives = true;
  }
  if (!claims)
    throw UsageError(concat("--comm ", communicator.name, has_other_streams ? " works neither on" : " does not work on",
                            " the streams of --device ", device.name, " (", view(kind),
                            has_other_streams ? concat(") nor on the host's (", view(host_kind)) : "", "): ", reason,
                            "; give another communicator, such as ", kDefaultCommunicator,
                            ", which works with any device"));
  job.comm_claims = *claims;
  if (job.staged.collectives && !optional_table<tsr_device_semaphore>(*device.device(), TSR_DEVICE_SEMAPHORE))
    throw UsageError(concat("--comm ", communicator.name, " works on the host, but the streams of --device ",
                            device.name,
                            " cannot wait for the host (it has no " TSR_DEVICE_SEMAPHORE
                            "); give a communicator that supports streams of the kind ",
                            tessera::to_string(kind)));
}

Mesh make_mesh(const std::vector<MeshAxis>& axes, const JobPlugins& plugins) {
  std::vector<Axis> result;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto& strategy = plugins.strategies[i];
    result.push_back({axes[i].name, axes[i].num_ranks, strategy ? strategy->strategy()->splits : TSR_SPLITS_BATCH});
  }
  return Mesh(std::move(result));
}

NamedArchitecture resolve_model(const ParsedFlags& flags, const Log& log) {
  NamedArchitecture named = find_architecture(flags.config.model);
  if (flags.set == FlagSet::train)
    for (const std::string& warning : named.warnings)
      log.warning(warning);
  return named;
}

/// --seq-len, or by default the model's longest sequence; 0 for a model without sequences. Refuses flags for data that
/// the model does not use.
int64_t resolve_seq_len(const TrainConfig& config, const ModelInputs& inputs) {
  const int64_t given = config.seq_len;
  const auto* tokens = std::get_if<TokenInputs>(&inputs);
  if (!tokens && given != 0)
    throw UsageError(concat("--seq-len ", given, ": --model ", config.model, " has no sequences; leave the flag out"));
  if (!tokens) return 0;
  refuse_example_flags(config);
  if (given > tokens->max_seq)
    throw UsageError(
        concat("--seq-len ", given, " is longer than the model's context of ", tokens->max_seq, " tokens"));
  return given == 0 ? tokens->max_seq : given;
}

tsr_dtype dtype_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return TSR_BF16;
    case Precision::fp16:
      return TSR_F16;
    default:
      return TSR_F32;
  }
}

// With more, planning a step takes gigabytes and minutes.
constexpr int64_t kMaxActions = 2'000'000;

/// Called before anything is built for each layer and micro-batch.
void check_num_actions(const TrainConfig& config, const Architecture& architecture) {
  const int64_t per_micro_batch = 2 * architecture.num_segments();  // each runs forward and backward
  const int64_t most = kMaxActions / per_micro_batch;
  if (config.grad_accum <= most) return;
  throw UsageError(concat("--grad-accum ", config.grad_accum, " makes a step of about ",
                          config.grad_accum * per_micro_batch, " actions for a model of ", architecture.num_layers(),
                          " layers, but at most ", kMaxActions, " are planned; give --grad-accum ", most,
                          " or less, with a larger --batch-size or more ranks instead"));
}

StepConfig step_config(const TrainConfig& config) {
  StepConfig step_config;
  step_config.dtype = dtype_of(config.dtype);
  step_config.reduce_dtype = dtype_of(config.reduce_dtype);
  step_config.num_micro_batches = static_cast<uint32_t>(config.grad_accum);
  step_config.reduce_every = config.reduce_every == ReduceEvery::step ? TSR_EVERY_STEP : TSR_EVERY_MICRO_BATCH;
  step_config.optimizer = config.optimizer == OptimizerKind::adamw ? TSR_OP_ADAMW : TSR_OP_SGD;
  step_config.beta1 = config.beta1;
  step_config.beta2 = config.beta2;
  step_config.epsilon = config.eps;
  step_config.weight_decay = config.weight_decay;
  step_config.max_norm = config.clip;
  step_config.recompute = config.recompute;
  return step_config;
}

void freeze(Model& model, const std::vector<std::string>& patterns) {
  try {
    freeze_parameters(model, patterns);
  } catch (const Error& e) {
    throw UsageError(std::string("--freeze: ") + e.what());
  }
}

void check_recompute(const Recompute& recompute, const Model& model) {
  const int num_blocks = model.num_blocks();
  if (recompute.what == Recompute::What::blocks && recompute.every > num_blocks)
    throw UsageError("--recompute " + to_string(recompute) + " recomputes nothing: the model has " +
                     std::to_string(num_blocks) + " blocks; give at most that, or none");
  const auto is_attention = [](const Segment& segment) { return segment.op.kind == TSR_OP_ATTENTION; };
  if (recompute.what == Recompute::What::attention && std::ranges::none_of(model.segments, is_attention))
    throw UsageError(
        "--recompute attention recomputes nothing: the model has no attention; give full, every=K or none");
}

/// `scale`: that of the examples opened before, if any, which these share; else it becomes theirs.
std::unique_ptr<Dataset> open_dataset(const Job& job, const std::string& flag, const std::string& path,
                                      std::optional<FeatureScale>& scale, const Log& log) {
  const Progress progress(log, concat("reading ", flag, " ", path));
  const ModelInputs inputs = job.architecture().inputs();
  const TrainConfig& config = job.config;
  if (const auto* tokens = std::get_if<TokenInputs>(&inputs)) {
    require_data(flag, path);
    return token_dataset(open_tokens(path, tokens->vocab), tokens->vocab);
  }
  const auto& [num_features, num_classes] = std::get<ExampleInputs>(inputs);
  find_idx_pair(path, flag);  // refuses what is not there
  auto source = open_examples(path, {{num_features, num_classes}, config.data_label, config.data_scale, scale});
  scale = source->scale();
  return example_dataset(std::move(source));
}

}  // namespace

/// Axes that split layers or tensors see the same data, so only data ranks count.
int64_t Job::tokens_per_step() const {
  return config.batch_size * std::max<int64_t>(1, config.seq_len) * config.grad_accum * mesh.num_data_ranks();
}

Job make_job(const ParsedFlags& flags, int num_ranks, const Log& log) {
  // Before the first call of a plugin.
  set_call_timeouts({flags.config.start_timeout_ms, flags.config.timeout_ms});
  for (const std::string& note : flags.notes)
    log.info(note);
  Job job;
  job.config = flags.config;
  job.trains = flags.set != FlagSet::eval;
  job.evaluates = !job.trains || !job.config.eval_data.empty();
  if (!job.trains) job.config.steps = 0;
  job.plugin_flags = flags.plugin_flags;
  job.axes = resolve_axes(job.config, num_ranks);
  job.plugins = load_plugins(job.config, job.axes, job.plugin_flags, log);
  // Settings and fingerprints have the name that was chosen: a run with auto is the run that names it (decision 0049).
  if (!job.plugins.why_communicator.empty()) job.config.comm = job.plugins.communicator->name;
  job.mesh = make_mesh(job.axes, job.plugins);
  job.options = resolve_options(job.plugins, job.config, job.axes, job.plugin_flags, log);
  // A device whose streams are of another kind than the CPU's has its own memory; a strategy's `call` works on the
  // host's.
  job.staged.calls = view(job.plugins.device.device()->stream_kind) != view(job.plugins.cpu.device()->stream_kind);
  place_comm_streams(job);
  job.named = resolve_model(flags, log);
  job.config.seq_len = resolve_seq_len(job.config, job.architecture().inputs());
  check_num_actions(job.config, job.architecture());
  job.step_config = step_config(job.config);
  // The loss is a mean over all tokens of the step, so sums over micro-batches and ranks need no division after them.
  const BatchShape batch{job.config.batch_size, job.config.seq_len, 1.0 / static_cast<double>(job.tokens_per_step()),
                         job.step_config.dtype};
  job.model = job.architecture().build(batch);
  if (job.trains)
    freeze(job.model, job.config.freeze);
  else
    freeze_all(job.model);
  check_recompute(job.config.recompute, job.model);
  return job;
}

int threads_per_rank(const TrainConfig& config, int num_local_ranks) {
  if (config.threads > 0) return config.threads;
  return std::max(1, num_cores() / num_local_ranks);
}

RunData open_data(const Job& job, const Log& log) {
  const TrainConfig& config = job.config;
  RunData data;
  std::optional<FeatureScale> scale;
  auto& first = job.trains ? data.training : data.evaluation;
  first = open_dataset(job, "--data", config.data, scale, log);
  if (!config.eval_data.empty()) data.evaluation = open_dataset(job, "--eval-data", config.eval_data, scale, log);
  try {
    if (data.training) data.training->reader(dataset_use(job));
    if (data.evaluation) data.evaluation->pass(dataset_use(job));
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  return data;
}

DataOrder data_order(const Job& job) {
  const bool has_tokens = std::holds_alternative<TokenInputs>(job.architecture().inputs());
  return job.config.data_order.value_or(has_tokens ? DataOrder::sequential : DataOrder::shuffled);
}

DatasetUse dataset_use(const Job& job) {
  const TrainConfig& config = job.config;
  return {config.batch_size, config.seq_len, job.mesh.num_data_ranks(), config.grad_accum, config.steps,
          data_order(job),   config.seed};
}

std::unique_ptr<ParameterSource> initial_parameters(const Job& job, const Log& log, int num_threads) {
  if (!job.trains && job.config.init_from.empty() &&
      (!is_model_folder(job.config.model) || find_weight_files(job.config.model).paths.empty()))
    throw UsageError(concat(job.config.model,
                            " has no weights to evaluate; give a checkpoint, or a folder with "
                            "config.json and model.safetensors"));
  const std::string &model = job.config.model, start = concat("training from random values of seed ", job.config.seed);
  if (!is_model_folder(model) && job.named.hub_id.empty()) {
    log.info("parameters: random values of seed ", job.config.seed);
  } else if (!is_model_folder(model)) {
    log.warning(start, ": --model ", model,
                " names a size, not weights; for the pretrained ones: ", how_to_download(job.named.hub_id, model));
  } else if (find_weight_files(model).paths.empty()) {
    log.warning(start, ": ", model, " has no model.safetensors; to start from weights, put them there");
  } else {
    auto weights = std::make_unique<HuggingFaceWeights>(model, job.model.parameters, job.architecture().tensor_names());
    log.info("parameters: from ", model);
    return weights;
  }
  return std::make_unique<InitialValues>(job.config.seed, job.model.parameters, num_threads);
}

JobStrategies::JobStrategies(const Job& job, const HostServices& host) {
  for (size_t i = 0; i < job.axes.size(); ++i) {
    if (!job.plugins.strategies[i]) continue;
    const LoadedPlugin& plugin = *job.plugins.strategies[i];
    const auto values = job.options.strategies[i].values();
    const tsr_strategy_create_args args{sizeof args,  0, host.of(plugin), str(job.axes[i].name), values.data(),
                                        values.size()};
    StrategyOnAxis strategy{plugin.name, static_cast<int>(i), plugin.strategy(), nullptr};
    try {
      strategy.instance = create_by<tsr_strategy>(true, strategy.interface->create, &args);
    } catch (const Error& e) {
      throw UsageError(e.what() + see_options(plugin), e.code());
    }
    instances_.emplace_back(strategy.instance, Destroy{strategy.interface});
    // One rank has nothing to split, and its pass could conflict with others (decision 0024).
    if (job.axes[i].num_ranks > 1) strategies_.push_back(strategy);
  }
}

CompileInput compile_input(const Job& job, std::span<const StrategyOnAxis> strategies,
                           std::span<const OffloadPolicy> policies, const Log& log) {
  const tsr_device_interface* device = job.plugins.device.device();
  DescribeOp describe_op = [device](const tsr_op& op) { return describe(*device, op); };
  DescribeCollective describe_collective;
  if (job.plugins.communicator)
    describe_collective = describe_with(job.plugins.communicator->communicator(), job.comm_claims);
  const uint64_t guard_bytes = job.config.debug_memory ? kBufferAlignment : 0;
  OffloadLimits limits;
  if (job.config.device_memory) limits.device_bytes = job.config.device_memory;
  if (job.config.host_memory) limits.places.front().num_bytes = job.config.host_memory;
  if (!job.config.offload_dirs.empty()) limits.places.push_back({TSR_MEMORY_FILE, 0, UINT64_MAX});
  limits.device_memory_is_host = job.computes_on_host();
  if (!job.computes_on_host() && !optional_table<tsr_device_semaphore>(*device, TSR_DEVICE_SEMAPHORE))
    limits.host_obstacle = concat("the streams of --device ", job.plugins.device.name,
                                  " cannot wait for the host (it has no " TSR_DEVICE_SEMAPHORE ")");
  if (!limits.host_obstacle.empty() && !job.config.offload_dirs.empty())
    throw UsageError(concat("--offload-dir: ", limits.host_obstacle, ", which reads and writes the files; leave out ",
                            "--offload-dir and offload to host memory, or give another --device"));
  return {.model = job.model,
          .mesh = job.mesh,
          .step_config = job.step_config,
          .strategies = strategies,
          .describe_op = describe_op,
          .describe_collective = describe_collective,
          .guard_bytes = guard_bytes,
          .staged = job.staged,
          .evaluates = job.evaluates,
          .log = log,
          .policies = policies,
          .offload_limits = limits,
          .chunk_bytes = job.config.offload_chunk,
          .trains = job.trains};
}

}  // namespace tessera::host
