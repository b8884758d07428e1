// Speed of training on CPUs against its limits, in one run: the products of a step alone, then with the memory of an
// update; one rank; as many runs of one rank at once, which share nothing but the machine; then ddp, fsdp and zero3
// over ranks of one thread each, over gloo. They take turns, so that what else the machine does meets all of them;
// ratios are of medians.
//     strategies_bench [--rounds N] [--steps N] [--batch-size N] [--seq-len N] [--model NAME] [--nproc N]
//                      [--dtype TYPE]
#include <sched.h>

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

enum class Kind { products, products_and_update, runs_apart, job };

struct Contender {
  std::string name;
  Kind kind;
  std::string ranks;
  std::vector<std::string> flags = {};
  std::vector<double> step_ms = {};  // without each run's first step, which is cold
  double peak_bytes = 0;

  double tokens_per_second(const BenchOptions& options) const {
    return std::stod(options.at("--batch-size")) * std::stod(options.at("--seq-len")) * std::stod(ranks) /
           median(step_ms) * 1e3;
  }
};

void run_products(Contender& contender, const BenchOptions& options) {
  const uint64_t tokens = std::stoull(options.at("--batch-size")) * std::stoull(options.at("--seq-len"));
  const auto products = std::make_unique<Products>(host::gpt2_config_by_name(options.at("--model")).value(), tokens);
  const auto step_ms = [&] {
    return products->run_ms() + (contender.kind == Kind::products_and_update ? products->update_ms() : 0);
  };
  step_ms();
  for (int step = 1; step < std::stoi(options.at("--steps")); ++step)
    contender.step_ms.push_back(step_ms());
}

std::vector<std::string> train_command(const BenchOptions& options, const std::string& num_ranks,
                                       const std::string& metrics) {
  std::vector<std::string> command = {tessera_program(), "train", "--data",    source_dir("runtime"),
                                      "--threads",       "1",     "--nproc",   num_ranks,
                                      "--log-level",     "error", "--metrics", metrics};
  for (const char* flag : {"--steps", "--batch-size", "--seq-len", "--model", "--dtype"})
    command.insert(command.end(), {flag, options.at(flag)});
  return command;
}

void wait(Command& command, const std::string& name) {
  const CommandResult result = command.wait(std::chrono::minutes(30));
  if (result.exit_code != 0) throw std::runtime_error(name + ": " + result.err);
}

void read_steps(Contender& contender, const std::string& metrics) {
  std::istringstream lines(file_bytes(metrics));
  std::string line;
  std::getline(lines, line);  // describes the run
  for (bool is_first = true; std::getline(lines, line); is_first = false) {
    const auto step = nlohmann::json::parse(line);
    if (!is_first) contender.step_ms.push_back(step["step_ms"]);
    contender.peak_bytes = std::max(contender.peak_bytes, step["peak_memory_bytes"].get<double>());
  }
}

/// The cores that this process may use.
std::vector<int> own_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("cannot read the cores of this process");
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

/// What as many ranks could do if communication cost nothing: each on a core of its own, as those of a job are.
void run_apart(Contender& contender, const BenchOptions& options) {
  const TempFolder folder;
  const std::vector<int> cores = own_cores();
  std::vector<std::unique_ptr<Command>> commands;
  const auto metrics = [&](size_t i) { return folder.path("metrics" + std::to_string(i)); };
  for (size_t i = 0; i < std::stoul(contender.ranks); ++i) {
    std::vector<std::string> command = train_command(options, "1", metrics(i));
    command.insert(command.begin(), {"/usr/bin/taskset", "-c", std::to_string(cores[i % cores.size()])});
    commands.push_back(std::make_unique<Command>(command));
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    wait(*commands[i], contender.name);
    read_steps(contender, metrics(i));
  }
}

void run_job(Contender& contender, const BenchOptions& options) {
  const TempFolder folder;
  std::vector<std::string> command = train_command(options, contender.ranks, folder.path("metrics"));
  command.insert(command.end(), contender.flags.begin(), contender.flags.end());
  Command job(command);
  wait(job, contender.name);
  read_steps(contender, folder.path("metrics"));
}

void run(Contender& contender, const BenchOptions& options) {
  if (contender.kind == Kind::job) return run_job(contender, options);
  if (contender.kind == Kind::runs_apart) return run_apart(contender, options);
  run_products(contender, options);
}

void print(const std::vector<Contender>& contenders, const BenchOptions& options) {
  std::printf("%s; %s, %s, B=%s, T=%s, one thread a rank; medians of %zu steps, in turns\n", processor().c_str(),
              options.at("--model").c_str(), options.at("--dtype").c_str(), options.at("--batch-size").c_str(),
              options.at("--seq-len").c_str(), contenders[0].step_ms.size());
  std::printf("%-28s %6s %10s %10s %14s\n", "", "ranks", "ms/step", "tokens/s", "peak of rank 0");
  std::map<std::string, double> speed;
  for (const Contender& contender : contenders) {
    speed[contender.name] = contender.tokens_per_second(options);
    std::printf("%-28s %6s %10.0f %10.0f", contender.name.c_str(), contender.ranks.c_str(), median(contender.step_ms),
                speed[contender.name]);
    if (contender.peak_bytes > 0) std::printf(" %10.0f MiB", contender.peak_bytes / (1 << 20));
    std::printf("\n");
  }
  const auto ratio = [&](const char* of, const char* to) {
    if (speed.contains(of) && speed.contains(to)) std::printf("%s, of %s: %.3f\n", of, to, speed[of] / speed[to]);
  };
  ratio("products and update", "products alone");
  ratio("one rank", "products alone");
  ratio("one rank", "products and update");
  ratio("runs apart", "one rank");
  ratio("ddp", "one rank");
  ratio("ddp", "runs apart");
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
  if (host::gpt2_config_by_name(options.at("--model"))) {
    contenders.push_back({"products alone", Kind::products, "1"});
    contenders.push_back({"products and update", Kind::products_and_update, "1"});
  }
  contenders.push_back({"one rank", Kind::job, "1"});
  contenders.push_back({"runs apart", Kind::runs_apart, options.at("--nproc")});
  for (const char* strategy : {"ddp", "fsdp", "zero3"})
    contenders.push_back({strategy, Kind::job, options.at("--nproc"), {"--strategy", strategy, "--comm", "gloo"}});
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
