// The flags of train, once: group, name, help, how to read it, how to print it. Those of saving are in
// checkpoint_flags.cc; plan has more (plan_flags.cc), and eval is without what only training has (`train_only`).
// Parsing, --help, the comparison of settings between ranks and the search for flags that would fit are loops over this
// table, so a new flag is a field of TrainConfig and an entry here.
//
// Flags that may differ between ranks (paths, the log) are not shared, and so not compared.
//
//     integer(kData, "batch-size", "sequences per ...", &C::batch_size, 1, 1 << 20)
//
//       --batch-size N    sequences per ... (default 4)     in the help, below "Model and data"
//       "batch-size": 4                                     in config.json
//
// Groups are in the order of the help, and rows in their group.

#include "config/flag_table.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/concat.h"
#include "base/log.h"
#include "config/axes.h"
#include "config/checkpoint_flags.h"
#include "config/flag_makers.h"
#include "config/offload_option.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

// The limits of the types, which errors do not name (text_values.cc).
constexpr double kInfinity = std::numeric_limits<double>::max();
constexpr int64_t kMaxSteps = std::numeric_limits<int64_t>::max();
// Decay rates must be below 1: with 1 a moving average never moves.
constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;

constexpr std::string_view kData = "Model and data";
constexpr std::string_view kEvaluation = "Evaluation";
constexpr std::string_view kRanks = "Ranks, plugins and precision";
constexpr std::string_view kTimeouts = "Timeouts";
constexpr std::string_view kReports = "Logs, metrics and checks";

using std::string_view;

/// Also accepts the names that other frameworks use.
Flag precision(string_view name, string_view help, Precision TrainConfig::*field) {
  constexpr std::pair<string_view, string_view> kAliases[] = {
      {"fp32", "float32"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}};
  Flag flag = choice(kRanks, name, kPrecisionChoices, help, field);
  // Aliases are only read; settings are printed and compared by our names (decision 0024).
  flag.read = [read = flag.read, kAliases](TrainConfig& config, string_view given) {
    const auto* alias = std::ranges::find(kAliases, given, &std::pair<string_view, string_view>::first);
    read(config, alias == std::end(kAliases) ? given : alias->second);
  };
  return flag;
}

void add_data_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  flags.insert(
      flags.end(),
      {local(text(kData, "model", "NAME|FOLDER", "name of a model, or a folder; see Models below", &C::model)),
       local(
           text(kData, "data", "PATH",
                "data: text (one token per byte), llm.c or raw uint16 .bin, a folder of one kind, or a "
                "pattern such as 'shards/*train*.bin'; for classifiers CSV, IDX as IMAGES:LABELS, or a folder such as "
                "MNIST's",
                &C::data)),
       choice(kData, "data-label", kLabelColumnChoices,
              "classifiers: the column of a CSV file that holds the label (default last)", &C::data_label),
       choice(kData, "data-scale", kDataScaleChoices,
              "classifiers: scale features to [0, 1] by the range of each column, by the range of the file, or not at "
              "all (default: column for CSV, file for IDX; IDX bytes are divided by 255)",
              &C::data_scale),
       train_only(choice(
           kData, "data-order", kDataOrderChoices,
           "sequential: as in the data; shuffled: in each epoch all sequences (or examples) once, in an order of its "
           "own (default: sequential for tokens, shuffled for examples)",
           &C::data_order)),
       integer(kData, "batch-size", "sequences (or examples) per rank and micro-batch", &C::batch_size, 1, 1 << 20),
       integer(kData, "seq-len", "tokens per sequence; 0: the context length of the model", &C::seq_len, 0, 1 << 24),
       train_only(integer(kData, "grad-accum", "micro-batches whose gradients are accumulated in a step",
                          &C::grad_accum, 1, 1 << 20)),
       train_only(integer(kData, "seed", "random seed for parameter initialization and for the order of shuffled data",
                          &C::seed, 0, kMaxSteps))});
}

void add_evaluation_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  flags.insert(
      flags.end(),
      {train_only(
           local(text(kEvaluation, "eval-data", "PATH",
                      "data to evaluate on, after the last step and every --eval-every steps; of the kinds of --data",
                      &C::eval_data))),
       train_only(integer(kEvaluation, "eval-every", "steps between two evaluations; 0: only after the last step",
                          &C::eval_every, 0, kMaxSteps)),
       integer(kEvaluation, "eval-batches", "batches of an evaluation, each of a step's size; 0: all of the data",
               &C::eval_batches, 0, kMaxSteps)});
}

/// Adds to the list each time, so that --freeze A --freeze B is --freeze A,B. Patterns are compared with names in the
/// job, once the model is known.
Flag freeze_flag() {
  const auto read = [](TrainConfig& config, string_view given) {
    for (const string_view pattern : split(given, ',')) {
      if (pattern.empty())
        throw UsageError(concat("--freeze '", given, "' has an empty pattern; give h.0.*, wte*, ..."));
      config.freeze.emplace_back(pattern);
    }
  };
  const auto print = [](const TrainConfig& config) { return print_list(config.freeze); };
  return {kOptimization,  "freeze",
          "PATTERN,...",  "freeze the parameters with these names, such as wte*, *.bias, h.[0-3].*; may be repeated",
          read,           print,
          true,           true,
          FlagKind::text, [](const TrainConfig& config) { return config.freeze; }};
}

void add_optimization_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  flags.insert(
      flags.end(),
      {integer(kOptimization, "steps", "optimizer steps", &C::steps, 1, kMaxSteps),
       number(kOptimization, "lr", "peak learning rate", &C::lr, 0, kInfinity),
       number(kOptimization, "min-lr", "learning rate at the end of the schedule", &C::min_lr, 0, kInfinity),
       integer(kOptimization, "warmup-steps", "steps of linear warm-up", &C::warmup_steps, 0, kMaxSteps),
       choice(kOptimization, "lr-schedule", kLrScheduleChoices, "learning rate after the warm-up", &C::lr_schedule),
       choice(kOptimization, "optimizer", kOptimizerChoices, "optimizer", &C::optimizer),
       number(kOptimization, "beta1", "adamw: decay rate of the first moment; sgd: momentum", &C::beta1, 0, kBelowOne),
       number(kOptimization, "beta2", "adamw: decay rate of the second moment", &C::beta2, 0, kBelowOne),
       number(kOptimization, "eps", "adamw: added to the denominator", &C::eps, 0, kInfinity),
       number(kOptimization, "weight-decay", "weight decay of parameters with two or more dimensions", &C::weight_decay,
              0, kInfinity),
       number(kOptimization, "clip", "limit of the global gradient norm; 0: no clipping", &C::clip, 0, kInfinity),
       freeze_flag()});
}

/// One folder each time: a path may hold commas. Printed as nothing, since it is compared nowhere; a file of settings
/// has its `items`.
Flag plugin_dir_flag() {
  const auto read = [](TrainConfig& config, string_view given) {
    require_no_tilde("--plugin-dir", given);
    config.plugin_dirs.emplace_back(given);
  };
  const auto print = [](const TrainConfig&) { return std::string(); };
  return {
      kRanks, "plugin-dir", "FOLDER",       "search this folder for plugins too; may be repeated",       read, print,
      false,  true,         FlagKind::text, [](const TrainConfig& config) { return config.plugin_dirs; }};
}

Flag recompute_flag() {
  const auto read = [](TrainConfig& config, string_view given) { config.recompute = parse_recompute(given); };
  const auto print = [](const TrainConfig& config) { return to_string(config.recompute); };
  return {kRanks,
          "recompute",
          "none|full|every=K|attention",
          "save memory by recomputing activations in the backward: of no block, all blocks, every K-th block, or "
          "attention only",
          read,
          print};
}

Flag offload_flag() {
  const auto read = [](TrainConfig& config, string_view given) { config.offload = parse_offload(given); };
  const auto print = [](const TrainConfig& config) { return print_list(config.offload); };
  return {kRanks,
          "offload",
          "none|POLICY,...",
          "policies that choose what is moved out of device memory, and when (default: none)",
          read,
          print};
}

void add_rank_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  const auto read_mesh = [](C& config, string_view given) { config.mesh = parse_mesh(given); };
  const auto read_strategies = [](C& config, string_view given) { config.strategies = parse_strategies(given); };
  flags.insert(
      flags.end(),
      {integer(kRanks, "nproc", "ranks to start on this machine; 0: as many as --mesh or the launcher has", &C::nproc,
               0, 1 << 16),
       {kRanks, "mesh", "AXIS=N,...",
        "axes of the mesh with their ranks, outermost first, such as pp=2,dp=4 (default: one axis, dp)", read_mesh,
        [](const C& config) { return print_mesh(config.mesh); }},
       {kRanks, "strategy", "[AXIS=]PLUGIN,...",
        "how each axis divides the work (default " TESSERA_DEFAULT_STRATEGY ")", read_strategies,
        [](const C& config) { return print_strategies(config.strategies); }},
       text(kRanks, "comm", "auto|PLUGIN",
            "communicator between ranks; auto: one that works on the device's own streams, as NCCL does on GPUs, "
            "or " TESSERA_DEFAULT_COMMUNICATOR,
            &C::comm),
       text(kRanks, "device", "PLUGIN", "device to compute on; tessera plugins list shows all plugins", &C::device),
       train_only(choice(kRanks, "cuda-graph", kCudaGraphChoices,
                         "auto: run steps as CUDA graphs where device and communicator support it", &C::cuda_graph)),
       plugin_dir_flag(),
       precision("dtype", "compute dtype; master weights and gradients stay float32", &C::dtype),
       train_only(precision("reduce-dtype", "dtype of gradient reduction between ranks", &C::reduce_dtype)),
       train_only(choice(kRanks, "reduce-every", kReduceEveryChoices, "how often gradients are summed over the ranks",
                         &C::reduce_every)),
       train_only(recompute_flag()),
       train_only(offload_flag()),
       train_only(local(list(kRanks, "offload-dir", "FOLDER,...",
                             "where policies keep what they move to files, on local disks; several share it in stripes",
                             &C::offload_dirs))),
       train_only(
           local(choice(kRanks, "offload-io", kIoEngineChoices,
                        "how files of --offload-dir are read and written; auto: with io_uring where it is allowed",
                        &C::offload_io))),
       train_only(local(boolean(kRanks, "offload-check",
                                "compare a crc32c of each block that is read from a file (on; =false turns it off)",
                                &C::offload_check))),
       train_only(bytes(kRanks, "offload-chunk", "offloaded optimizer state is moved in pieces of this size",
                        &C::offload_chunk, 4096)),
       bytes(kRanks, "device-memory",
             "device memory that a rank may use: 2GiB, 512MiB, 1.5GB; a run that needs more is refused at start",
             &C::device_memory),
       train_only(bytes(
           kRanks, "host-memory",
           "host memory that a rank may use for --offload and for the copy of --save-async; a run that needs more is "
           "refused at start",
           &C::host_memory)),
       local(boolean(kRanks, "bind-cores",
                     "each rank computes on its own share of this machine's cores, if they are enough and one command "
                     "started the ranks (on; =false turns it off)",
                     &C::bind_cores)),
       boolean(kRanks, "insecure",
               "let ranks on several machines connect without TESSERA_JOB_SECRET; for trusted networks only",
               &C::insecure),
       integer(kRanks, "threads", "threads per rank; 0: cores / ranks on this machine", &C::threads, 0, 4096)});
}

Flag profile_flag() {
  const auto read = [](TrainConfig& config, string_view given) { config.profile = parse_steps(given); };
  const auto print = [](const TrainConfig& config) { return config.profile ? print_steps(*config.profile) : ""; };
  return {kReports, "profile", "FROM:TO", "trace these steps, from 1 on: every action of every rank", read, print};
}

void add_report_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  const auto read_level = [](C& config, string_view given) {
    parse_choice("log-level", given, kLogLevelNames);
    config.log_level = std::string(given);
  };
  const auto read_delay = [](C& config, string_view given) {
    config.stream_delay = static_cast<uint64_t>(parse_integer("stream-delay", given, 0, kMaxSteps));
  };
  const auto print_delay = [](const C& config) {
    return config.stream_delay ? std::to_string(*config.stream_delay) : std::string();
  };
  flags.insert(
      flags.end(),
      {integer(kTimeouts, "start-timeout-ms", "milliseconds for the rendezvous and everything before the first step",
               &C::start_timeout_ms, 1, 1LL << 40),
       integer(kTimeouts, "timeout-ms",
               "milliseconds for every later wait of a rank for another, and for what plugins do in a step",
               &C::timeout_ms, 1, 1LL << 40),
       local(text(kReports, "metrics", "FILE",
                  "append JSON lines to this file: one for the run, then one per step, evaluation and checkpoint; -: "
                  "standard output",
                  &C::metrics)),
       train_only(profile_flag()),
       train_only(
           local(text(kReports, "profile-out", "FILE",
                      "the trace of --profile, for Perfetto and tessera trace; compressed where the name ends in .gz "
                      "(default trace.json.gz)",
                      &C::profile_out))),
       train_only(local(
           text(kReports, "out", "FOLDER",
                "keep the record of the run in this folder: configuration, metrics, TensorBoard events, plan and the "
                "log of every rank; tessera report FOLDER shows it",
                &C::out))),
       local(boolean(kReports, "overwrite",
                     "let --metrics, --profile-out, --out and --svg replace files that tessera did not write (never "
                     "the inputs of the job), and --save use a folder with checkpoints of another run",
                     &C::overwrite)),
       train_only(
           integer(kReports, "max-skipped-steps",
                   "fail after this many steps in a row were skipped because a gradient was not finite; 0: never",
                   &C::max_skipped_steps, 0, kMaxSteps)),
       train_only(
           local(integer(kReports, "log-every",
                         "log every N-th step, and always the first and the last; 0: about a hundred lines in all. "
                         "--metrics has every step",
                         &C::log_every, 0, kMaxSteps))),
       {kReports, "log-level", kLogLevelNames, "lowest level that is logged", read_level,
        [](const C& config) { return config.log_level; }, false},
       boolean(kReports, "debug-memory", "fill buffers with NaN before use and check the guard bytes at their ends",
               &C::debug_memory),
       train_only(
           integer(kReports, "debug-replicas",
                   "every N steps, compare checksums of everything that must be identical on several ranks; 0: never",
                   &C::debug_replicas, 0, kMaxSteps)),
       numeric({kReports, "stream-delay", "SEED",
                "delay every stream at random, to expose races; results must not change", read_delay, print_delay,
                false})});
}

std::vector<Flag> make_flags() {
  std::vector<Flag> flags;
  add_data_flags(flags);
  add_evaluation_flags(flags);
  add_optimization_flags(flags);
  add_rank_flags(flags);
  add_checkpoint_flags(flags);
  add_report_flags(flags);
  return flags;
}

}  // namespace

std::span<const Flag> train_flags() {
  // parse_flags keeps references into it.
  static const std::vector<Flag> flags = make_flags();
  return flags;
}

bool has_flag(FlagSet set, const Flag& flag) {
  return set != FlagSet::eval || !(flag.is_train_only || flag.group == kOptimization || flag.group == kCheckpoints);
}

/// Texts, which every rank prints alike: equal settings are equal texts, and an error shows them as they are.
std::vector<ConfigField> shared_fields(const TrainConfig& config) {
  std::vector<ConfigField> fields;
  for (const Flag& flag : train_flags())
    if (flag.is_shared) fields.push_back({std::string(flag.name), flag.print(config)});
  return fields;
}

std::vector<ConfigField> result_fields(const TrainConfig& config) {
  std::vector<ConfigField> fields;
  for (const Flag& flag : train_flags()) {
    // --seed and the sizes of batches are in the group of the data. The mesh is left out: a checkpoint records it
    // itself.
    const bool changes_results =
        flag.group == kData || flag.group == kOptimization || flag.name == "dtype" || flag.name == "reduce-dtype";
    if (flag.is_shared && changes_results) fields.push_back({std::string(flag.name), flag.print(config)});
  }
  return fields;
}

}  // namespace tessera::host
