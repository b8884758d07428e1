// Speed of the sharding strategies against ddp: GPT-2 124M, 2 ranks over gloo, one thread each, in one run. The
// strategies take turns, so that what else the machine does meets all of them; ratios are of medians.
//     strategies_bench [--rounds N] [--steps N] [--batch-size N] [--seq-len N] [--model NAME] [--nproc N]
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "support/command.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

struct Contender {
  std::string name;
  std::vector<std::string> flags;
  std::vector<double> step_ms = {};  // without each run's first step, which is cold
  double peak_bytes = 0;
};

void run(Contender& contender, const BenchOptions& options) {
  const TempFolder folder;
  std::vector<std::string> command = {tessera_program(), "train", "--data",    source_dir("runtime"),
                                      "--comm",          "gloo",  "--threads", "1",
                                      "--log-level",     "error", "--metrics", folder.path("metrics")};
  for (const char* flag : {"--steps", "--batch-size", "--seq-len", "--model", "--nproc"})
    command.insert(command.end(), {flag, options.at(flag)});
  command.insert(command.end(), contender.flags.begin(), contender.flags.end());
  const CommandResult result = Command(command).wait(std::chrono::minutes(30));
  if (result.exit_code != 0) throw std::runtime_error(contender.name + ": " + result.err);
  std::istringstream lines(file_bytes(folder.path("metrics")));
  std::string line;
  std::getline(lines, line);  // describes the run
  for (bool is_first = true; std::getline(lines, line); is_first = false) {
    const auto step = nlohmann::json::parse(line);
    if (!is_first) contender.step_ms.push_back(step["step_ms"]);
    contender.peak_bytes = std::max(contender.peak_bytes, step["peak_memory_bytes"].get<double>());
  }
}

void print(const std::vector<Contender>& contenders, const BenchOptions& options) {
  const double tokens =
      std::stod(options.at("--batch-size")) * std::stod(options.at("--seq-len")) * std::stod(options.at("--nproc"));
  std::printf("%s, %s ranks over gloo, one thread each; %s, B=%s, T=%s; medians of %zu steps, in turns\n",
              processor().c_str(), options.at("--nproc").c_str(), options.at("--model").c_str(),
              options.at("--batch-size").c_str(), options.at("--seq-len").c_str(), contenders[0].step_ms.size());
  std::printf("%-28s %10s %10s %8s %14s\n", "strategy", "ms/step", "tokens/s", "of ddp", "peak of rank 0");
  for (const Contender& contender : contenders) {
    const double ms = median(contender.step_ms);
    std::printf("%-28s %10.0f %10.0f %8.3f %10.0f MiB\n", contender.name.c_str(), ms, tokens / ms * 1e3,
                median(contenders[0].step_ms) / ms, contender.peak_bytes / (1 << 20));
  }
}

void bench(int argc, char** argv) {
  const BenchOptions options = read_options(argc, argv,
                                            {{"--rounds", "3"},
                                             {"--steps", "4"},
                                             {"--batch-size", "4"},
                                             {"--seq-len", "256"},
                                             {"--model", "gpt2"},
                                             {"--nproc", "2"}});

  std::vector<Contender> contenders = {
      {"ddp", {"--strategy", "ddp"}}, {"fsdp", {"--strategy", "fsdp"}}, {"zero3", {"--strategy", "zero3"}}};
  for (int round = 0; round < std::stoi(options.at("--rounds")); ++round)
    for (Contender& contender : contenders)
      run(contender, options);
  print(contenders, options);
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  return tessera::testing::run_bench("strategies_bench", [&] { tessera::testing::bench(argc, argv); });
}
