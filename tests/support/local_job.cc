#include "support/local_job.h"
#include "support/paths.h"

#include <bit>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "train/local_ranks.h"

namespace tessera::testing {

RunResult run_local(std::vector<std::string> flags, int num_ranks) {
  flags.insert(flags.end(), {"--comm=local", "--threads=1", "--plugin-dir=" + plugin_dir()});
  const Log log(LogLevel::off);
  const Job job = make_job(parse_flags(FlagSet::train, flags), num_ranks, log);
  const auto data = open_data(job);
  RunResult result;
  result.final_losses.resize(static_cast<size_t>(num_ranks));
  const auto observer = [&](int rank) {
    RankObserver o;
    o.on_step = [&result, rank](const StepMetrics& step) {
      if (rank == 0) result.steps.push_back(step);
      result.final_losses[static_cast<size_t>(rank)] = step.loss;
    };
    if (rank == 0)
      o.on_end = [&](RankRuntime& runtime) {
        for (size_t p = 0; p < job.model.parameters.size(); ++p) {
          auto& values = result.parameters[job.model.parameters[p].name];
          values.resize(job.model.parameters[p].num_elements);
          runtime.read_parameter(static_cast<int>(p), values);
        }
      };
    return o;
  };
  train_local_ranks(job, *data, observer, log);
  return result;
}

std::string golden_folder() {
  return source_dir("tests/golden/gpt2-nano");
}

namespace {
nlohmann::json golden_json() {
  return nlohmann::json::parse(std::ifstream(golden_folder() + "/trajectory.json"));
}
}  // namespace

Trajectory golden_trajectory() {
  const auto json = golden_json();
  return {json["loss"], json["grad_norm"], json["final_weight_norm"]};
}

std::vector<std::string> golden_flags(int num_ranks) {
  const auto json = golden_json();
  std::vector<std::string> flags = {"--model=" + golden_folder(), "--data=" + golden_folder() + "/tokens.bin"};
  for (const char* name : {"batch_size", "seq_len", "steps", "lr", "weight_decay", "beta1", "beta2", "eps", "clip"})
    flags.push_back("--" + std::string(name) + "=" + json[name].dump());
  const int micro_batches = json["grad_accum"].get<int>() * json["dp"].get<int>();
  flags.push_back("--grad-accum=" + std::to_string(micro_batches / num_ranks));
  return flags;
}

bool same_bits(const RunResult& a, const RunResult& b) {
  if (a.steps.size() != b.steps.size() || a.parameters != b.parameters) return false;
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (std::bit_cast<uint64_t>(a.steps[i].loss) != std::bit_cast<uint64_t>(b.steps[i].loss) ||
        std::bit_cast<uint64_t>(a.steps[i].grad_norm) != std::bit_cast<uint64_t>(b.steps[i].grad_norm))
      return false;
  return true;
}

}  // namespace tessera::testing
