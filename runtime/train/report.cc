#include "train/report.h"

#include <algorithm>

#include "observe/resident_memory.h"
#include "train/planned_job.h"
#include "train/text.h"

namespace tessera {
namespace {

std::string mesh_text(const Job& job) {
  std::string text;
  for (const MeshAxis& axis : job.axes)
    text += (text.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.num_ranks) +
            (axis.strategy.empty() ? "" : " " + axis.strategy);
  return text.empty() ? "one rank" : text;
}

std::string frozen_text(const Model& model) {
  const uint64_t all = model.num_parameter_elements(), trained = model.num_trainable_elements();
  if (trained == all) return "";
  return " (" + std::to_string(trained) + " trained, " + std::to_string(all - trained) + " frozen)";
}

}  // namespace

void report_start(const Log& log, const Job& job, const TokenSource& data, const RankRuntime& runtime) {
  log.info("data: ", data.description());
  log.info("model: ", job.config.model, ", ", job.model.num_parameter_elements(), " parameters", frozen_text(job.model),
           ", ", job.gpt2.num_layers, " layers, ", job.gpt2.num_heads, " heads, width ", job.gpt2.embed);
  log.info("mesh: ", mesh_text(job), "; ", job.tokens_per_step(), " tokens a step");
  log.info("memory: arena of ", human_bytes(runtime.arena_bytes()), " per rank");
}

void report_step(const Log& log, const StepMetrics& step, int64_t num_steps, bool updated, const LossScaler& scaler) {
  log.info(format("step %4lld/%lld | loss %8.5f | norm %7.4f | lr %.2e | %8.1f ms | %.0f tok/s",
                  static_cast<long long>(step.step), static_cast<long long>(num_steps), step.loss, step.grad_norm,
                  step.lr, step.step_ms, step.tokens_per_second));
  if (!updated)
    log.warning("step ", step.step, " was skipped: a gradient is not finite",
                scaler.is_dynamic() ? format("; the loss scale is now %g", scaler.scale()) : "");
}

void report_end(const Log& log, const Job& job, const RankRuntime& runtime, int64_t resident_before) {
  const MemoryReport planned = largest_program(runtime.programs()).memory;
  const ResidentMemory resident = resident_memory();
  const auto now = static_cast<uint64_t>(resident.now_bytes), peak = static_cast<uint64_t>(resident.peak_bytes);
  const auto before = static_cast<uint64_t>(resident_before);
  const int num_arenas = job.ranks_are_threads ? job.mesh.num_ranks() : 1;
  log.info("done: ", job.config.steps, " steps");
  log.info("memory planned between steps: ", human_bytes(planned.states.total()), " (", class_list(planned.states),
           ")");
  log.info("memory planned at the peak: ", human_bytes(planned.peak.total()), " (", class_list(planned.peak),
           ") in an arena of ", human_bytes(runtime.arena_bytes()));
  log.info("memory measured: rank 0's process has ", human_bytes(now), ", at the peak ", human_bytes(peak),
           "; without the ", human_bytes(before),
           " it had before the arena: ", human_bytes(now - std::min(now, before)), " and ",
           human_bytes(peak - std::min(peak, before)),
           num_arenas > 1 ? concat(", for the arenas of its ", num_arenas, " ranks") : "");
}

}  // namespace tessera
