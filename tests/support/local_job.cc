#include "support/local_job.h"
#include "support/paths.h"
#include "support/read_parameter.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <iomanip>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera::testing {

namespace {

constexpr uint32_t kNobody = 0x7fc0dead;  // a NaN that no computation makes

/// Puts together what ranks hold of the parameters, from their own threads.
class ParameterGatherer {
 public:
  ParameterGatherer(const Model& model, RunResult& result) : model_(model), result_(result) {
    for (const Parameter& parameter : model.parameters)
      result.parameters[parameter.name].resize(parameter.num_elements, std::bit_cast<float>(kNobody));
  }

  void add(RankRuntime& runtime) {
    const std::lock_guard lock(mutex_);
    for (size_t p = 0; p < model_.parameters.size(); ++p) {
      std::vector<float> own(model_.parameters[p].num_elements, std::bit_cast<float>(kNobody));
      read_parameter(runtime, static_cast<int>(p), own);
      merge(result_.parameters[model_.parameters[p].name], own);
    }
  }

 private:
  void merge(std::vector<float>& all, const std::vector<float>& own) {
    for (size_t i = 0; i < own.size(); ++i) {
      const auto have = std::bit_cast<uint32_t>(all[i]), holds = std::bit_cast<uint32_t>(own[i]);
      if (holds == kNobody) continue;
      if (have != kNobody && have != holds) ++result_.num_contradictions;
      all[i] = own[i];
    }
  }

  const Model& model_;
  RunResult& result_;
  std::mutex mutex_;
};

uint64_t count_missing(const RunResult& result) {
  uint64_t missing = 0;
  for (const auto& [name, values] : result.parameters)
    missing += static_cast<uint64_t>(
        std::ranges::count_if(values, [](float value) { return std::bit_cast<uint32_t>(value) == kNobody; }));
  return missing;
}

std::string not_whole(const RunResult& run) {
  if (run.num_missing) return std::to_string(run.num_missing) + " elements of parameters are on no rank";
  if (run.num_contradictions)
    return std::to_string(run.num_contradictions) + " elements of parameters differ between ranks that hold them";
  return "";
}

template <class To, class From>
bool same(From a, From b) {
  return std::bit_cast<To>(a) == std::bit_cast<To>(b);
}

std::string difference(const std::string& what, double a, double b) {
  if (same<uint64_t>(a, b)) return "";
  std::ostringstream text;
  text << std::setprecision(17) << what << ": " << a << " and " << b;
  return text.str();
}

}  // namespace

RunResult run_local(std::vector<std::string> flags, int num_ranks, const std::string& comm, const AtEnd& at_end) {
  flags.insert(flags.end(), {"--comm=" + comm, "--threads=1", "--plugin-dir=" + plugin_dir()});
  const Log log(LogLevel::off);
  Job job = make_job(parse_flags(FlagSet::train, flags), num_ranks, log);
  job.evaluates |= at_end != nullptr;
  const auto data = open_data(job);
  RunResult result;
  result.final_losses.resize(static_cast<size_t>(num_ranks));
  ParameterGatherer gatherer(job.model, result);
  const auto observer = [&](int rank) {
    RankObserver o;
    o.on_step = [&result, rank](const StepMetrics& step) {
      if (rank == 0) result.steps.push_back(step);
      result.final_losses[static_cast<size_t>(rank)] = step.loss;
    };
    o.on_end = [&, rank](RankRuntime& runtime) {
      if (at_end) at_end(job, *data.training, rank, runtime);
      gatherer.add(runtime);
    };
    return o;
  };
  train_thread_ranks(job, data, observer, log);
  result.num_missing = count_missing(result);
  return result;
}

std::string golden_folder() {
  return source_dir("tests/golden/gpt2-nano");
}

namespace {
nlohmann::json trajectory_json(const std::string& folder) {
  return nlohmann::json::parse(std::ifstream(folder + "/trajectory.json"));
}
}  // namespace

Trajectory trajectory_of(const std::string& folder) {
  const auto json = trajectory_json(folder);
  return {json["loss"], json["grad_norm"], json.value("final_weight_norm", std::map<std::string, double>{})};
}

std::vector<std::string> trajectory_flags(const std::string& folder, int num_ranks) {
  const auto json = trajectory_json(folder);
  std::vector<std::string> flags = {"--model=" + folder, "--data=" + folder + "/tokens.bin"};
  for (const char* name : {"batch_size", "seq_len", "steps", "lr", "weight_decay", "beta1", "beta2", "eps", "clip"})
    flags.push_back("--" + std::string(name) + "=" + json[name].dump());
  const int micro_batches = json["grad_accum"].get<int>() * json["dp"].get<int>();
  flags.push_back("--grad-accum=" + std::to_string(micro_batches / num_ranks));
  return flags;
}

Trajectory golden_trajectory() {
  return trajectory_of(golden_folder());
}

std::vector<std::string> golden_flags(int num_ranks) {
  return trajectory_flags(golden_folder(), num_ranks);
}

std::string first_difference(const RunResult& a, const RunResult& b) {
  for (const RunResult* run : {&a, &b})
    if (const std::string text = not_whole(*run); !text.empty()) return text;
  if (a.steps.size() != b.steps.size()) return "numbers of steps differ";
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const std::string step = " of step " + std::to_string(i + 1);
    if (const auto text = difference("loss" + step, a.steps[i].loss, b.steps[i].loss); !text.empty()) return text;
    if (const auto text = difference("norm" + step, a.steps[i].grad_norm, b.steps[i].grad_norm); !text.empty())
      return text;
  }
  for (const auto& [name, values] : a.parameters) {
    const auto other = b.parameters.find(name);
    if (other == b.parameters.end() || other->second.size() != values.size()) return name + " is not in both";
    for (size_t i = 0; i < values.size(); ++i)
      if (!same<uint32_t>(values[i], other->second[i]))
        return difference(name + "[" + std::to_string(i) + "]", values[i], other->second[i]);
  }
  return "";
}

bool same_bits(const RunResult& a, const RunResult& b) {
  return first_difference(a, b).empty();
}

}  // namespace tessera::testing
