#include "train/report.h"

#include <array>
#include <cstdio>

#include "observe/peak_memory.h"

namespace tessera {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

std::string program_name(const Program& program) {
  switch (program.purpose) {
    case TSR_PURPOSE_INIT:
      return "init";
    case TSR_PURPOSE_EVAL:
      return "eval";
    default:
      return program.variant ? "step " + std::to_string(program.variant) : "step";
  }
}

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

std::string human_bytes(uint64_t num_bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(num_bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit)
    value /= 1024;
  return format(unit ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
}

std::string memory_table(const RankPrograms& programs) {
  std::string table =
      format("%-10s %8s %12s %12s %12s %12s\n", "program", "actions", "arena", "persistent", "live peak", "waste");
  const auto all = programs.all();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto use = programs.memory[i].use.find(TSR_MEMORY_DEVICE);
    if (use == programs.memory[i].use.end()) continue;
    const MemoryUse& m = use->second;
    table += format("%-10s %8zu %12s %12s %12s %12s\n", program_name(*all[i]).c_str(), all[i]->actions.size(),
                    human_bytes(m.arena_bytes).c_str(), human_bytes(m.persistent_bytes).c_str(),
                    human_bytes(m.live_peak_bytes).c_str(), human_bytes(m.waste_bytes()).c_str());
    for (const auto& [kind, num_bytes] : m.peak_bytes_by_kind)
      table += format("  %-17s %12s\n", std::string(buffer_kind_name(kind)).c_str(), human_bytes(num_bytes).c_str());
  }
  return table;
}

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

void report_end(const Log& log, const Job& job, const RankRuntime& runtime) {
  log.info("done: ", job.config.steps, " steps; planned arena ", human_bytes(runtime.arena_bytes()),
           ", peak resident memory of rank 0's process ", human_bytes(static_cast<uint64_t>(peak_resident_bytes())));
}

}  // namespace tessera
