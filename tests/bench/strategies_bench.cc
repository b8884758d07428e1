// Speed of training on CPUs against its limit, in one run: the products of a step alone, one rank, then ddp, fsdp and
// zero3 over ranks of one thread each, over gloo. They take turns, so that what else the machine does meets all of
// them; ratios are of medians.
//     strategies_bench [--rounds N] [--steps N] [--batch-size N] [--seq-len N] [--model NAME] [--nproc N]
//                      [--dtype TYPE]
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "bench/products.h"
#include "support/command.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

struct Contender {
  std::string name;
  std::string ranks;  ///< "0": the products alone
  std::vector<std::string> flags;
  std::vector<double> step_ms = {};  // without each run's first step, which is cold
  double peak_bytes = 0;

  double tokens_per_second(const BenchOptions& options) const {
    const double ranks_or_one = std::max(1.0, std::stod(ranks));
    return std::stod(options.at("--batch-size")) * std::stod(options.at("--seq-len")) * ranks_or_one / median(step_ms) *
           1e3;
  }
};

void run_products(Contender& contender, const BenchOptions& options) {
  const uint64_t tokens = std::stoull(options.at("--batch-size")) * std::stoull(options.at("--seq-len"));
  const auto products = std::make_unique<Products>(host::gpt2_config_by_name(options.at("--model")).value(), tokens);
  products->run_ms();
  for (int step = 1; step < std::stoi(options.at("--steps")); ++step)
    contender.step_ms.push_back(products->run_ms());
}

void run(Contender& contender, const BenchOptions& options) {
  if (contender.ranks == "0") return run_products(contender, options);
  const TempFolder folder;
  std::vector<std::string> command = {tessera_program(), "train", "--data",    source_dir("runtime"),
                                      "--threads",       "1",     "--nproc",   contender.ranks,
                                      "--log-level",     "error", "--metrics", folder.path("metrics")};
  for (const char* flag : {"--steps", "--batch-size", "--seq-len", "--model", "--dtype"})
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
  std::printf("%s; %s, %s, B=%s, T=%s, one thread a rank; medians of %zu steps, in turns\n", processor().c_str(),
              options.at("--model").c_str(), options.at("--dtype").c_str(), options.at("--batch-size").c_str(),
              options.at("--seq-len").c_str(), contenders[0].step_ms.size());
  std::printf("%-28s %6s %10s %10s %14s\n", "", "ranks", "ms/step", "tokens/s", "peak of rank 0");
  std::map<std::string, double> speed;
  for (const Contender& contender : contenders) {
    speed[contender.name] = contender.tokens_per_second(options);
    std::printf("%-28s %6s %10.0f %10.0f", contender.name.c_str(),
                contender.ranks == "0" ? "-" : contender.ranks.c_str(), median(contender.step_ms),
                speed[contender.name]);
    if (contender.peak_bytes > 0) std::printf(" %10.0f MiB", contender.peak_bytes / (1 << 20));
    std::printf("\n");
  }
  const auto ratio = [&](const char* of, const char* to) {
    if (speed.contains(of) && speed.contains(to)) std::printf("%s, of %s: %.3f\n", of, to, speed[of] / speed[to]);
  };
  ratio("one rank", "products alone");
  ratio("ddp", "one rank");
  ratio("fsdp", "ddp");
  ratio("zero3", "ddp");
}

void bench(int argc, char** argv) {
  const BenchOptions options = read_options(argc, argv,
                                            {{"--rounds", "3"},
                                             {"--steps", "4"},
                                             {"--batch-size", "4"},
                                             {"--seq-len", "256"},
                                             {"--model", "gpt2"},
                                             {"--dtype", "float32"},
                                             {"--nproc", "2"}});
  std::vector<Contender> contenders;
  if (host::gpt2_config_by_name(options.at("--model"))) contenders.push_back({"products alone", "0", {}});
  contenders.push_back({"one rank", "1", {}});
  for (const char* strategy : {"ddp", "fsdp", "zero3"})
    contenders.push_back({strategy, options.at("--nproc"), {"--strategy", strategy, "--comm", "gloo"}});
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
