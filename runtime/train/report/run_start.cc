// What rank 0 logs before the first step: one table that describes the run, with warnings about rates that cannot work.

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "checkpoint/held_state.h"
#include "config/text_values.h"
#include "plan/format.h"
#include "plan/job_plan.h"
#include "plan/moved.h"
#include "train/learning_rate.h"
#include "train/report/report.h"

namespace tessera::host {
namespace {

std::string with_version(const LoadedPlugin& plugin) {
  return concat(plugin.name, " ", plugin.version);
}

std::string model_text(const Job& job) {
  const uint64_t all = job.model.num_parameter_elements(), trained = job.model.num_trainable_elements();
  const std::string frozen =
      trained == all || trained == 0 ? "" : concat(" (", trained, " trained, ", all - trained, " frozen)");
  return concat(job.config.model, ", ", all, " parameters", frozen, ", ", job.architecture().summary());
}

/// "200 of 1024 tokens: 2 ranks x 4 sequences of 128"
std::string steps_text(const Job& job) {
  const TrainConfig& config = job.config;
  const std::string batch = config.seq_len > 0 ? concat(counted(config.batch_size, "sequence"), " of ", config.seq_len)
                                               : counted(config.batch_size, "example");
  const int num_data_ranks = job.mesh.num_data_ranks();
  return concat(job.trains ? concat(config.steps, " of ") : "batches of ", job.tokens_per_step(), " ", job.items(),
                ": ", num_data_ranks > 1 ? concat(num_data_ranks, " ranks x ") : "",
                config.grad_accum > 1 ? concat(config.grad_accum, " micro-batches x ") : "", batch);
}

std::string optimizer_text(const Job& job) {
  const TrainConfig& config = job.config;
  if (!job.trains) return "";
  return concat(to_string(config.optimizer), ", lr ", shortest(config.lr), " ", to_string(config.lr_schedule),
                config.warmup_steps > 0 ? concat(" after ", counted(config.warmup_steps, "step"), " of warm-up") : "",
                config.weight_decay > 0 ? concat(", weight decay ", shortest(config.weight_decay)) : "",
                config.clip > 0 ? concat(", clip ", shortest(config.clip)) : "");
}

std::string precision_text(const Job& job) {
  const TrainConfig& config = job.config;
  if (config.dtype == Precision::float32 && config.reduce_dtype == Precision::float32) return "float32";
  return concat(to_string(config.dtype), ", parameters in float32, gradients summed in ",
                to_string(config.reduce_dtype));
}

std::string every(int64_t num_steps) {
  return num_steps == 1 ? ", every step" : concat(", every ", num_steps, " steps");
}

std::string evaluation_text(const Job& job, const RunData& data) {
  if (!data.evaluation) return "";
  return concat(data.evaluation->description(), !job.trains                 ? ""
                                                : job.config.eval_every > 0 ? every(job.config.eval_every)
                                                                            : ", after the last step");
}

std::string mesh_shape(const Job& job) {
  std::string shape;
  for (const MeshAxis& axis : job.axes)
    shape += concat(shape.empty() ? "" : ", ", axis.name, "=", axis.num_ranks);
  const int num_ranks = job.mesh.num_ranks();
  return num_ranks == 1 ? "one rank" : concat(shape, ": ", num_ranks, " ranks");
}

std::string strategies_text(const Job& job) {
  std::vector<std::string> words;
  for (size_t i = 0; i < job.axes.size(); ++i)
    if (const auto& strategy = job.plugins.strategies[i])
      words.push_back(concat(job.axes[i].name, ": ", with_version(*strategy),
                             job.axes[i].num_ranks == 1 ? " (one rank: nothing to split)" : ""));
  return joined(words);
}

std::string communicator_text(const Job& job) {
  if (!job.plugins.communicator || job.mesh.num_ranks() == 1) return "";
  const std::string& why = job.plugins.why_communicator;
  return concat(with_version(*job.plugins.communicator), job.ranks_are_threads() ? ", ranks are threads" : "",
                why.empty() ? "" : concat("; --comm auto chose it, since ", why));
}

/// With the memory of a device that has its own, and of the host for staging.
std::string device_text(const Job& job, const RankRuntime& runtime, RankThreads threads) {
  const std::string name = with_version(job.plugins.device);
  if (job.computes_on_host())
    return concat(name, ", ", counted(threads.count, "thread"), job.mesh.num_ranks() > 1 ? " per rank" : "",
                  threads.have_own_cores ? ", on its own cores" : "");
  const auto memory = runtime.device_memory();
  const MemoryReport host = largest_program(runtime.programs(), TSR_MEMORY_HOST).memory;
  const uint64_t staging = host.most[MemoryClass::communication];
  return concat(
      name,
      memory ? concat(", ", human_bytes(memory->used_bytes), " of ", human_bytes(memory->total_bytes), " in use") : "",
      staging ? concat("; ", human_bytes(staging), " of host memory for staging") : "");
}

std::string graph_text(const Job& job, const RankRuntime& runtime) {
  if (job.computes_on_host()) return "";
  const std::string obstacle = runtime.obstacle_to_graphs();
  return obstacle.empty() ? "on, from the second step on" : "off, because " + obstacle;
}

std::string memory_text(const RankRuntime& runtime) {
  const MemoryReport planned = largest_program(runtime.programs()).memory;
  return concat(human_bytes(runtime.arena_bytes()), " planned per rank, ", human_bytes(planned.states.total()),
                " of it between steps");
}

/// What leaves device memory, where it goes, and how much moves.
std::string offload_text(const Job& job, const RankPrograms& programs) {
  if (job.plugins.offload.empty()) return "";
  std::vector<std::string> policies;
  for (const LoadedPlugin& policy : job.plugins.offload)
    policies.push_back(with_version(policy));
  std::string places;
  for (const PlaceUse& place : places_of(programs))
    if (place.memory != TSR_MEMORY_DEVICE && offloaded_bytes(place.report) > 0)
      places += concat("; up to ", human_bytes(offloaded_bytes(place.report)), " in ", place_name(place.memory));
  const MovedBytes moved = moved_in_step(programs).total();
  return concat(joined(policies), places.empty() ? "; nothing leaves device memory"
                                                 : concat(places, "; ", human_bytes(moved.out_bytes), " out and ",
                                                          human_bytes(moved.in_bytes), " in each step"));
}

std::string checkpoints_text(const Job& job, const RankRuntime& runtime) {
  const TrainConfig& config = job.config;
  if (config.save.empty()) return "";
  const std::string copy = config.save_async ? concat("; ", human_bytes(owned_bytes(runtime.programs().first())),
                                                      " of host memory for the copy of the state that is written while "
                                                      "steps run")
                                             : "";
  return concat(config.save, config.save_every > 0 ? every(config.save_every) : ", after the last step", copy);
}

/// The first of the flags that were given and are about files of policies; null: none was.
const char* flag_of_files(const TrainConfig& config) {
  const TrainConfig usual;
  if (!config.offload_dirs.empty()) return "--offload-dir";
  if (config.offload_io != usual.offload_io) return "--offload-io";
  return config.offload_check != usual.offload_check ? "--offload-check" : nullptr;
}

/// Whether an option of a policy says so.
bool asks_for_files(const Job& job) {
  return std::ranges::any_of(job.plugin_flags,
                             [](const PluginFlag& flag) { return flag.name.ends_with(".to") && flag.value == "file"; });
}

void warn_of_offload(const Log& log, const Job& job, const RankPrograms& programs) {
  if (job.plugins.offload.empty()) return;
  const auto uses = [places = places_of(programs)](uint32_t memory) {
    return std::ranges::any_of(places, [memory](const PlaceUse& place) {
      return place.memory == memory && offloaded_bytes(place.report) > 0;
    });
  };
  if (const char* flag = flag_of_files(job.config); flag && !uses(TSR_MEMORY_FILE))
    log.warning(flag, " has no effect: ",
                asks_for_files(job)
                    ? std::string("the policies find nothing to move to files in this run; leave it out")
                    : concat("no policy moves anything to files; add --", job.plugins.offload[0].name,
                             ".to=file, or leave it out"));
  if (!job.computes_on_host() || !uses(TSR_MEMORY_HOST)) return;
  log.warning("offload to host memory frees no memory on this machine, since the memory of --device ",
              job.plugins.device.name, " is host memory; it lowers only what --device-memory counts");
}

/// An update of adamw moves each element by about the rate, so no rate above 1 can train.
constexpr double kMaxAdamwRate = 1, kMaxSgdRate = 1e6;

/// Devices take these as float32.
void warn_of_vanishing(const Log& log, const TrainConfig& config) {
  const std::pair<const char*, double> values[] = {{"lr", config.lr},
                                                   {"min-lr", config.min_lr},
                                                   {"eps", config.eps},
                                                   {"weight-decay", config.weight_decay},
                                                   {"clip", config.clip}};
  for (const auto& [flag, value] : values)
    if (value != 0 && static_cast<float>(value) == 0)
      log.warning("--", flag, " ", shortest(value),
                  " is 0 in float32, in which it is used; give a larger number, or 0");
}

void warn_of_rates(const Log& log, const TrainConfig& config) {
  warn_of_vanishing(log, config);
  const double most = config.optimizer == OptimizerKind::adamw ? kMaxAdamwRate : kMaxSgdRate;
  if (config.lr > most)
    log.warning("--lr ", shortest(config.lr), " is too high: no rate above ", shortest(most), " can train with ",
                to_string(config.optimizer), "; expect parameters to overflow");
  const double decay = config.lr * config.weight_decay;
  if (decay >= 1)
    log.warning("--lr times --weight-decay is ", format("%.3g", decay),
                ", the fraction of each parameter that a step removes; keep it far below 1");
  const int64_t left = config.steps - config.warmup_steps;
  if (left < 0)
    log.warning("--warmup-steps ", config.warmup_steps, " is more than --steps ", config.steps,
                ": the learning rate ends at ", format("%.3g", learning_rate(config, config.steps - 1)),
                " and never reaches --lr ", shortest(config.lr));
  else if (config.lr_schedule != LrSchedule::constant && config.warmup_steps > 0 && left < 2)
    log.warning("--lr-schedule ", to_string(config.lr_schedule), " has no effect: it falls to --min-lr ",
                shortest(config.min_lr), " over two steps or more, and --warmup-steps ", config.warmup_steps,
                " leaves ", left, " of --steps ", config.steps, "; give fewer steps of warm-up, or more --steps");
}

}  // namespace

std::string mesh_text(const Job& job) {
  std::string text;
  for (const MeshAxis& axis : job.axes)
    text += (text.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.num_ranks) +
            (axis.strategy.empty() ? "" : " " + axis.strategy);
  return text.empty() ? "one rank" : text;
}

std::vector<Row> start_rows(const Job& job, const RunData& data, const RankRuntime& runtime, RankThreads threads) {
  return {{"model", model_text(job)},
          {"data", data.training ? data.training->description() : ""},
          {"evaluation", evaluation_text(job, data)},
          {job.trains ? "steps" : "batches", steps_text(job)},
          {"optimizer", optimizer_text(job)},
          {"precision", precision_text(job)},
          {"mesh", mesh_shape(job)},
          {"strategies", strategies_text(job)},
          {"communicator", communicator_text(job)},
          {"device", device_text(job, runtime, threads)},
          {"cuda graph", graph_text(job, runtime)},
          {"memory", memory_text(runtime)},
          {"offload", offload_text(job, runtime.programs())},
          {"checkpoints", checkpoints_text(job, runtime)}};
}

void report_start(const Log& log, const Job& job, const RunData& data, const RankRuntime& runtime,
                  RankThreads threads) {
  log.info(table(concat("tessera " TESSERA_VERSION, job.trains ? " trains" : " evaluates"),
                 start_rows(job, data, runtime, threads), table_columns()));
  warn_of_offload(log, job, runtime.programs());
  if (job.trains) warn_of_rates(log, job.config);
}

}  // namespace tessera::host
