// Every flag of train and plan, once: group, name, help, how to read it, how to print it. Parsing, --help, the
// comparison of settings between ranks and the search for flags that would fit are loops over this table, so a new flag
// is a field of TrainConfig and an entry here.
//
// Flags that may differ between ranks (paths, the log) are not shared, and so not compared.

#include "config/flag_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/concat.h"
#include "base/log.h"
#include "config/axes.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

constexpr std::string_view kLabelColumns = "first|last";
constexpr std::string_view kDataScales = "column|file|none";
constexpr std::string_view kSchedules = "constant|linear|cosine";
constexpr std::string_view kOptimizers = "adamw|sgd";
constexpr std::string_view kReduceEvery = "step|micro-batch";
constexpr std::string_view kPrecisions = "float32|bf16|fp16";
constexpr std::string_view kCudaGraphs = "auto|off";
constexpr double kInfinity = std::numeric_limits<double>::max();
constexpr int64_t kMostSteps = std::numeric_limits<int64_t>::max();
// Decay rates must be below 1: with 1 a moving average never moves.
constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;

constexpr std::string_view kData = "Model and data";
constexpr std::string_view kOptimisation = "Optimisation";
constexpr std::string_view kRanks = "Ranks, plugins and precision";
constexpr std::string_view kDeadlines = "Deadlines";
constexpr std::string_view kReports = "Reports and checks";

using std::string_view;

Flag text(string_view group, string_view name, string_view value, string_view help, std::string TrainConfig::*field) {
  const auto read = [field, name](TrainConfig& config, string_view given) {
    if (given.empty()) throw UsageError(concat("--", name, " is empty; give a value or leave it out"));
    config.*field = std::string(given);
  };
  return {group, name, value, help, read, [field](const TrainConfig& config) { return config.*field; }};
}

template <class T>
Flag integer(string_view group, string_view name, string_view help, T TrainConfig::*field, int64_t min, int64_t max) {
  const auto read = [=](TrainConfig& config, string_view given) {
    config.*field = static_cast<T>(parse_integer(name, given, min, max));
  };
  return {group, name, "N", help, read, [field](const TrainConfig& config) { return std::to_string(config.*field); }};
}

Flag number(string_view group, string_view name, string_view help, double TrainConfig::*field, double min, double max) {
  const auto read = [=](TrainConfig& config, string_view given) {
    config.*field = parse_number(name, given, min, max);
  };
  return {group, name, "X", help, read, [field](const TrainConfig& config) { return shortest(config.*field); }};
}

template <class E>
Flag choice(string_view group, string_view name, string_view choices, string_view help, E TrainConfig::*field) {
  const auto read = [=](TrainConfig& config, string_view given) {
    config.*field = static_cast<E>(parse_choice(name, given, choices));
  };
  const auto print = [=](const TrainConfig& config) { return std::string(to_string(config.*field)); };
  return {group, name, choices, help, read, print};
}

/// A choice whose default depends on other things.
template <class E>
Flag choice(string_view group, string_view name, string_view choices, string_view help,
            std::optional<E> TrainConfig::*field) {
  const auto read = [=](TrainConfig& config, string_view given) {
    config.*field = static_cast<E>(parse_choice(name, given, choices));
  };
  const auto print = [=](const TrainConfig& config) {
    return std::string(config.*field ? to_string(*(config.*field)) : "");
  };
  return {group, name, choices, help, read, print};
}

Flag turned_on(string_view group, string_view name, string_view help, bool TrainConfig::*field) {
  const auto read = [=](TrainConfig& config, string_view given) { config.*field = parse_bool(name, given); };
  const auto print = [=](const TrainConfig& config) { return std::string(config.*field ? "true" : "false"); };
  return {group, name, "", help, read, print};
}

/// Also takes the names of other frameworks.
Flag precision(string_view name, string_view help, Precision TrainConfig::*field) {
  constexpr std::pair<string_view, string_view> kAliases[] = {
      {"fp32", "float32"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}};
  Flag flag = choice(kRanks, name, kPrecisions, help, field);
  // Only read: what is printed and compared is always our name (decision 0024).
  flag.read = [read = flag.read, kAliases](TrainConfig& config, string_view given) {
    const auto* alias = std::ranges::find(kAliases, given, &std::pair<string_view, string_view>::first);
    read(config, alias == std::end(kAliases) ? given : alias->second);
  };
  return flag;
}

Flag local(Flag flag) {
  flag.is_shared = false;
  return flag;
}

std::string print_mesh(const TrainConfig& config) {
  std::string printed;
  for (const AxisFlag& axis : config.mesh)
    printed += concat(printed.empty() ? "" : ",", axis.name, "=", axis.num_ranks);
  return printed;
}

std::string print_strategies(const TrainConfig& config) {
  std::string printed;
  for (const StrategyFlag& strategy : config.strategies)
    printed += concat(printed.empty() ? "" : ",", strategy.axis, strategy.axis.empty() ? "" : "=", strategy.plugin);
  return printed;
}

void add_data_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  flags.insert(
      flags.end(),
      {local(text(kData, "model", "NAME|FOLDER", "a model by name, or a folder; see Models below", &C::model)),
       local(
           text(kData, "data", "PATH",
                "text (bytes are the tokens), llm.c or raw uint16 .bin; a folder of one kind, or 'shards/*train*.bin'; "
                "classifiers: CSV, IDX as IMAGES:LABELS, or a folder such as MNIST's",
                &C::data)),
       choice(kData, "data-label", kLabelColumns,
              "classifiers: the column of a CSV file that is the label (default last)", &C::data_label),
       choice(kData, "data-scale", kDataScales,
              "classifiers: scale features to [0, 1] by the range of each column, by that of the file, or not "
              "(default: CSV column, IDX file; IDX bytes are divided by 255)",
              &C::data_scale),
       integer(kData, "batch-size", "sequences, or examples, per rank and micro-batch", &C::batch_size, 1, 1 << 20),
       integer(kData, "seq-len", "tokens per sequence; 0: the model's context length", &C::seq_len, 0, 1 << 24),
       integer(kData, "grad-accum", "micro-batches per step", &C::grad_accum, 1, 1 << 20),
       {kData, "seed", "N", "of the initial values, and of the order of a classifier's examples",
        [](C& config, string_view given) {
          config.seed = static_cast<uint64_t>(parse_integer("seed", given, 0, std::numeric_limits<int64_t>::max()));
        },
        [](const C& config) { return std::to_string(config.seed); }}});
}

Flag freeze_flag() {
  const auto read = [](TrainConfig& config, string_view given) {
    for (const string_view pattern : split(given, ',')) {
      if (pattern.empty())
        throw UsageError(concat("--freeze '", given, "' has an empty pattern; give h.0.*, wte*, ..."));
      config.freeze.emplace_back(pattern);
    }
  };
  const auto print = [](const TrainConfig& config) {
    std::string printed;
    for (const std::string& pattern : config.freeze)
      printed += (printed.empty() ? "" : ",") + pattern;
    return printed;
  };
  return {kOptimisation, "freeze",
          "PATTERN,...", "parameters that are not trained, by name: wte*, *.bias, h.[0-3].*; may be repeated",
          read,          print,
          true,          true};
}

void add_optimisation_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  flags.insert(
      flags.end(),
      {integer(kOptimisation, "steps", "optimizer steps", &C::steps, 1, kMostSteps),
       number(kOptimisation, "lr", "peak learning rate", &C::lr, 0, kInfinity),
       number(kOptimisation, "min-lr", "learning rate at the end of the schedule", &C::min_lr, 0, kInfinity),
       integer(kOptimisation, "warmup-steps", "steps of linear warm-up", &C::warmup_steps, 0, kMostSteps),
       choice(kOptimisation, "lr-schedule", kSchedules, "after the warm-up", &C::lr_schedule),
       choice(kOptimisation, "optimizer", kOptimizers, "", &C::optimizer),
       number(kOptimisation, "beta1", "adamw: decay of the mean; sgd: momentum", &C::beta1, 0, kBelowOne),
       number(kOptimisation, "beta2", "adamw: decay of the mean of squares", &C::beta2, 0, kBelowOne),
       number(kOptimisation, "eps", "adamw: added to the root", &C::eps, 0, kInfinity),
       number(kOptimisation, "weight-decay", "of tensors with two or more dims", &C::weight_decay, 0, kInfinity),
       number(kOptimisation, "clip", "limit of the global gradient norm; 0: off", &C::clip, 0, kInfinity),
       freeze_flag()});
}

Flag plugin_dir_flag() {
  const auto read = [](TrainConfig& config, string_view given) { config.plugin_dirs.emplace_back(given); };
  const auto print = [](const TrainConfig&) { return std::string(); };
  return {kRanks, "plugin-dir", "FOLDER", "search this folder for plugins too; may be repeated",
          read,   print,        false,    true};
}

Flag device_memory_flag() {
  const auto read = [](TrainConfig& config, string_view given) {
    config.device_memory = parse_bytes("device-memory", given);
  };
  const auto print = [](const TrainConfig& config) {
    return config.device_memory ? print_bytes(config.device_memory) : std::string();
  };
  return {
      kRanks, "device-memory",
      "SIZE", "what a rank may take of its device: 2GiB, 512MiB, 1.5GB; a run that needs more is refused before step 1",
      read,   print};
}

Flag recompute_flag() {
  const auto read = [](TrainConfig& config, string_view given) { config.recompute = parse_recompute(given); };
  const auto print = [](const TrainConfig& config) { return to_string(config.recompute); };
  return {kRanks,
          "recompute",
          "none|full|every=K|attention",
          "what the backward computes again to save memory: nothing, all blocks, every K-th block, attention only",
          read,
          print};
}

void add_rank_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  const auto read_mesh = [](C& config, string_view given) { config.mesh = parse_mesh(given); };
  const auto read_strategies = [](C& config, string_view given) { config.strategies = parse_strategies(given); };
  flags.insert(
      flags.end(),
      {integer(kRanks, "nproc", "local ranks to start; 0: the mesh's product, or what the launcher started", &C::nproc,
               0, 1 << 16),
       {kRanks, "mesh", "AXIS=N,...", "axes of the mesh, outermost first: pp=2,dp=4; one axis dp if not given",
        read_mesh, print_mesh},
       {kRanks, "strategy", "[AXIS=]PLUGIN,...",
        "how each axis splits the work; " TESSERA_DEFAULT_STRATEGY " if not given", read_strategies, print_strategies},
       text(kRanks, "comm", "PLUGIN", "communicator", &C::comm),
       text(kRanks, "device", "PLUGIN", "what computes; tessera plugins list names what there is", &C::device),
       choice(kRanks, "cuda-graph", kCudaGraphs, "run steps as graphs, where device and communicator can; or never",
              &C::cuda_graph),
       plugin_dir_flag(),
       precision("dtype", "what is computed in; homes of parameters and their gradients are float32", &C::dtype),
       precision("reduce-dtype", "in which gradients are sent", &C::reduce_dtype),
       choice(kRanks, "reduce-every", kReduceEvery, "when gradients are summed over the ranks", &C::reduce_every),
       recompute_flag(),
       device_memory_flag(),
       turned_on(kRanks, "insecure",
                 "let ranks of several machines meet without TESSERA_JOB_SECRET, in a trusted network", &C::insecure),
       integer(kRanks, "threads", "of each rank; 0: cores / local ranks", &C::threads, 0, 4096)});
}

void add_report_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  const auto read_level = [](C& config, string_view given) {
    parse_choice("log-level", given, kLogLevelNames);
    config.log_level = std::string(given);
  };
  const auto read_delay = [](C& config, string_view given) {
    config.stream_delay = static_cast<uint64_t>(parse_integer("stream-delay", given, 0, kMostSteps));
  };
  const auto print_delay = [](const C& config) {
    return config.stream_delay ? std::to_string(*config.stream_delay) : std::string();
  };
  flags.insert(
      flags.end(),
      {integer(kDeadlines, "start-timeout-ms", "of the rendezvous and everything before the first step",
               &C::start_timeout_ms, 1, 1LL << 40),
       integer(kDeadlines, "timeout-ms", "of every later collective", &C::timeout_ms, 1, 1LL << 40),
       local(text(kReports, "metrics", "FILE",
                  "add JSON lines to this file: one object for the run, then one a step; -: to standard output",
                  &C::metrics)),
       local(turned_on(
           kReports, "overwrite",
           "let --metrics and --svg replace a file that tessera did not write, but never one that the job reads",
           &C::overwrite)),
       integer(
           kReports, "max-skipped-steps",
           "steps skipped in a row, because a gradient is not finite, after which the run has failed; 0: any number",
           &C::max_skipped_steps, 0, kMostSteps),
       {kReports, "log-level", kLogLevelNames, "least level of the log", read_level,
        [](const C& config) { return config.log_level; }, false},
       turned_on(kReports, "debug-memory", "fill buffers with NaN before use and guard their ends", &C::debug_memory),
       {kReports, "stream-delay", "SEED", "delay every stream at random; no bit of the result may change", read_delay,
        print_delay, false}});
}

std::vector<Flag> make_flags() {
  std::vector<Flag> flags;
  add_data_flags(flags);
  add_optimisation_flags(flags);
  add_rank_flags(flags);
  add_report_flags(flags);
  return flags;
}

}  // namespace

std::string_view to_string(LabelColumn label) {
  return split(kLabelColumns, '|')[static_cast<size_t>(label)];
}
std::string_view to_string(DataScale scale) {
  return split(kDataScales, '|')[static_cast<size_t>(scale)];
}
std::string_view to_string(LrSchedule schedule) {
  return split(kSchedules, '|')[static_cast<size_t>(schedule)];
}
std::string_view to_string(OptimizerKind optimizer) {
  return split(kOptimizers, '|')[static_cast<size_t>(optimizer)];
}
std::string_view to_string(ReduceEvery every) {
  return split(kReduceEvery, '|')[static_cast<size_t>(every)];
}
std::string_view to_string(Precision precision) {
  return split(kPrecisions, '|')[static_cast<size_t>(precision)];
}

std::string_view to_string(CudaGraph cuda_graph) {
  return split(kCudaGraphs, '|')[static_cast<size_t>(cuda_graph)];
}

std::span<const Flag> train_flags() {
  // Built once; parse_flags keeps references into it.
  static const std::vector<Flag> flags = make_flags();
  return flags;
}

std::vector<ConfigField> shared_fields(const TrainConfig& config) {
  std::vector<ConfigField> fields;
  for (const Flag& flag : train_flags())
    if (flag.is_shared) fields.push_back({std::string(flag.name), flag.print(config)});
  return fields;
}

}  // namespace tessera::host
