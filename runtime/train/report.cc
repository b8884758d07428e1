// What rank 0 logs at the start, after each step and at the end, with warnings about rates that cannot work.

#include "train/report.h"

#include <algorithm>

#include "base/concat.h"
#include "checkpoint/held_state.h"
#include "checkpoint/save_folder.h"
#include "config/text_values.h"
#include "plan/format.h"
#include "plan/job_plan.h"
#include "plan/moved.h"
#include "train/learning_rate.h"

namespace tessera::host {
namespace {

std::string bytes(int64_t num_bytes) {
  return human_bytes(static_cast<uint64_t>(num_bytes));
}

/// The device, its staging memory on the host, and whether steps are CUDA graphs; nothing on a CPU.
void report_device(const Log& log, const Job& job, const RankRuntime& runtime) {
  if (job.device_is_cpu()) return;
  const auto memory = runtime.device_memory();
  const MemoryReport host = largest_program(runtime.programs(), TSR_MEMORY_HOST).memory;
  const uint64_t staging = host.most[MemoryClass::communication];
  log.info(
      "device: ", job.plugins.device.name,
      memory ? concat(", ", human_bytes(memory->used_bytes), " of ", human_bytes(memory->total_bytes), " in use") : "",
      staging ? concat("; ", human_bytes(staging), " of host memory for staging") : "");
  const std::string obstacle = runtime.obstacle_to_graphs();
  log.info("cuda graph: ", obstacle.empty() ? "on, from the second step on" : "off, because " + obstacle);
}

std::string policies_text(const Job& job) {
  std::vector<std::string> names;
  for (const LoadedPlugin& policy : job.plugins.offload)
    names.push_back(policy.name);
  return joined(names);
}

/// What leaves device memory, for where, and how much of it moves; nothing without offload policies.
void report_offload(const Log& log, const Job& job, const RankPrograms& programs) {
  if (job.plugins.offload.empty()) return;
  std::string places;
  bool uses_host = false;
  for (const PlaceUse& place : places_of(programs))
    if (place.memory != TSR_MEMORY_DEVICE && offloaded_bytes(place.report) > 0) {
      places += concat("; up to ", human_bytes(offloaded_bytes(place.report)), " in ", place_name(place.memory));
      uses_host |= place.memory == TSR_MEMORY_HOST;
    }
  const MovedBytes moved = moved_in_step(programs).total();
  log.info("offload: ", policies_text(job),
           places.empty() ? "; nothing leaves device memory"
                          : concat(places, "; ", human_bytes(moved.out_bytes), " out and ", human_bytes(moved.in_bytes),
                                   " in each step"));
  if (uses_host && job.device_is_cpu())
    log.warning("offload to host memory frees no memory of this machine, since the memory of --device ",
                job.plugins.device.name, " is host memory; it lowers only what --device-memory counts");
}

/// Decimal, as disks and links are rated.
std::string gigabytes_per_second(uint64_t num_bytes, double seconds) {
  return format("%.2f GB/s", seconds > 0 ? static_cast<double>(num_bytes) / seconds * 1e-9 : 0);
}

std::string at_rate(const TransferCounts& counts) {
  return concat(human_bytes(counts.num_bytes), " at ",
                gigabytes_per_second(counts.num_bytes, static_cast<double>(counts.busy_ns) * 1e-9));
}

/// What all steps of the run have moved, and how fast.
void report_moved(const Log& log, const Job& job, const MovedInRun& moved) {
  if (job.plugins.offload.empty()) return;
  const MovedBytes& planned = moved.planned;
  log.info("offload moved: ", human_bytes(planned.out_bytes), " out of device memory and ",
           human_bytes(planned.in_bytes),
           " in, in all steps of rank 0: ", gigabytes_per_second(planned.in_bytes + planned.out_bytes, moved.seconds),
           " over their whole time");
  if (moved.read.num_bytes + moved.written.num_bytes > 0)
    log.info("offload files: rank 0 read ", at_rate(moved.read), " and wrote ", at_rate(moved.written),
             " while it did so");
}

std::string frozen_text(const Model& model) {
  const uint64_t all = model.num_parameter_elements(), trained = model.num_trainable_elements();
  if (trained == all || trained == 0) return "";
  return " (" + std::to_string(trained) + " trained, " + std::to_string(all - trained) + " frozen)";
}

std::string of_process(const Job& job, const MeasuredMemory& m) {
  const auto added = [&](int64_t num_bytes) {
    return human_bytes(static_cast<uint64_t>(std::max<int64_t>(0, num_bytes - m.before_bytes)));
  };
  const int num_arenas = job.ranks_are_threads() ? job.mesh.num_ranks() : 1;
  return concat("rank 0's process uses ", bytes(m.now_bytes), ", peak ", bytes(m.peak_bytes), "; without the ",
                bytes(m.before_bytes), " from before the arena: ", added(m.now_bytes), ", peak ", added(m.peak_bytes),
                num_arenas > 1 ? concat(", for the arenas of its ", num_arenas, " ranks") : "");
}

std::string of_device(const MeasuredMemory& m) {
  return concat("rank 0's device has ", bytes(m.now_bytes), " of ", bytes(m.total_bytes), " in use, peak ",
                bytes(m.peak_bytes), ", by all processes");
}

/// An update of adamw moves each element by about the rate, so no rate above 1 can train.
constexpr double kMostAdamwRate = 1, kMostSgdRate = 1e6;

void warn_of_rates(const Log& log, const TrainConfig& config) {
  const double most = config.optimizer == OptimizerKind::adamw ? kMostAdamwRate : kMostSgdRate;
  if (config.lr > most)
    log.warning("--lr ", shortest(config.lr), " is too high: no rate above ", shortest(most), " can train with ",
                to_string(config.optimizer), "; expect parameters to overflow");
  const double decay = config.lr * config.weight_decay;
  if (decay >= 1)
    log.warning("--lr times --weight-decay is ", format("%.3g", decay),
                ", the fraction of each parameter that a step removes; keep it far below 1");
  if (config.warmup_steps > config.steps)
    log.warning("--warmup-steps ", config.warmup_steps, " is more than --steps ", config.steps,
                ": the learning rate ends at ", format("%.3g", learning_rate(config, config.steps - 1)),
                " and never reaches --lr ", shortest(config.lr));
}

void report_steps(const Log& log, const Job& job, const RunEnd& end) {
  if (end.stopped_by.empty()) {
    log.info("done: ", job.config.steps, " steps");
    return;
  }
  log.info("stopped after step ", end.last_step, " of ", job.config.steps, ", as ", end.stopped_by, " asked; ",
           end.saved_step == end.last_step ? concat("--resume ", job.config.save, " goes on from there")
           : end.saved_step                ? concat("the last checkpoint is of step ", end.saved_step)
                                           : std::string("nothing was saved"));
}

}  // namespace

std::string mesh_text(const Job& job) {
  std::string text;
  for (const MeshAxis& axis : job.axes)
    text += (text.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.num_ranks) +
            (axis.strategy.empty() ? "" : " " + axis.strategy);
  return text.empty() ? "one rank" : text;
}

void report_start(const Log& log, const Job& job, const RunData& data, const RankRuntime& runtime) {
  if (data.training) log.info("data: ", data.training->description());
  if (data.evaluation) log.info("evaluation data: ", data.evaluation->description());
  log.info("model: ", job.config.model, ", ", job.model.num_parameter_elements(), " parameters", frozen_text(job.model),
           ", ", job.architecture().summary());
  log.info("mesh: ", mesh_text(job), "; ", job.tokens_per_step(), " ", job.items(),
           job.trains ? " per step" : " per batch");
  if (!job.plugins.why_communicator.empty() && job.mesh.num_ranks() > 1)
    log.info("communicator: ", job.plugins.communicator->name, ", which --comm auto chose since ",
             job.plugins.why_communicator);
  log.info("memory: arena of ", human_bytes(runtime.arena_bytes()), " per rank");
  report_device(log, job, runtime);
  report_offload(log, job, runtime.programs());
  if (job.config.save_async)
    log.info("save-async: ", human_bytes(owned_bytes(runtime.programs().first())),
             " of host memory for the copy of the state that is written while steps run");
  if (job.trains) warn_of_rates(log, job.config);
}

void report_step(const Log& log, const StepMetrics& step, int64_t num_steps, const LossScaler& scaler) {
  log.info(format("step %4lld/%lld | loss %8.5f | ", static_cast<long long>(step.step),
                  static_cast<long long>(num_steps), step.loss),
           step.accuracy ? format("accuracy %6.2f %% | ", 100 * *step.accuracy) : "",
           format("norm %7.4f | lr %.2e | %8.1f ms | %.0f %s/s", step.grad_norm, step.lr, step.step_ms,
                  step.tokens_per_second, step.accuracy ? "examples" : "tok"));
  if (!step.updated)
    log.warning("step ", step.step, " was skipped: a gradient is not finite",
                scaler.is_dynamic() ? format("; the loss scale is now %g", scaler.scale()) : "");
}

void report_evaluation(const Log& log, const EvalMetrics& result) {
  log.info("evaluation", result.after_step ? concat(" after step ", result.after_step) : "",
           format(": loss %.5f", result.loss),
           result.perplexity ? format(" | perplexity %.4g", *result.perplexity) : "",
           result.bits_per_byte ? format(" | %.4f bits per byte", *result.bits_per_byte) : "",
           result.accuracy ? format(" | accuracy %.2f %%", 100 * *result.accuracy) : "", " | ", result.num_items, " ",
           result.items, format(" | %.1f s", result.seconds));
}

std::string unsaved_text(const Job& job, const RunEnd& end) {
  return concat("the checkpoint after the last step, ", end.last_step, ", was not written: ", end.save_error, "; ",
                end.saved_step ? concat("the last good one is ", job.config.save, "/", step_folder_name(end.saved_step),
                                        ", from which --resume ", job.config.save, " goes on")
                               : concat("there is no checkpoint of this run in --save ", job.config.save));
}

void report_end(const Log& log, const Job& job, const RankRuntime& runtime, const RunEnd& end,
                const MeasuredMemory& measured, const MovedInRun& moved) {
  const MemoryReport planned = largest_program(runtime.programs()).memory;
  if (job.trains) report_steps(log, job, end);
  log.info("memory planned between steps: ", human_bytes(planned.states.total()), " (", class_list(planned.states),
           ")");
  log.info("memory planned at the peak: ", human_bytes(planned.peak.total()), " (", class_list(planned.peak),
           ") in an arena of ", human_bytes(runtime.arena_bytes()));
  report_moved(log, job, moved);
  log.info("memory measured: ", measured.total_bytes ? of_device(measured) : of_process(job, measured));
}

}  // namespace tessera::host
