// How close a predicted step time is to a measured one. In each round, in turns and for each job: tessera bench rates
// with the job's flags, plan --rates by what it wrote, then train. The target is 15 %. Ranks are processes over gloo or
// threads over local; a rank has one thread.
//     prediction_bench [--rounds N] [--steps N] [--batch-size N] [--seq-len N] [--model NAME]
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/bench_tools.h"
#include "support/command.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;

constexpr auto kTimeLimit = std::chrono::minutes(60);

struct PredictedJob {
  std::string name;
  Flags flags = {};
  std::vector<double> step_ms = {}, ratio = {};  // by round; predicted / measured
};

std::string run(const Flags& command) {
  const CommandResult result = Command(command).wait(kTimeLimit);
  if (result.exit_code != 0) throw std::runtime_error(command[1] + ": " + result.err);
  return result.out;
}

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PredictionBench {
 public:
  explicit PredictionBench(BenchOptions options) : options_(std::move(options)) {
    jobs_ = {{"one rank"},
             {"one rank, 2 micro-batches, recompute", {"--grad-accum=2", "--recompute=full"}},
             {"ddp, 2 ranks, gloo", {"--nproc=2", "--comm=gloo"}},
             {"ddp, 2 ranks, local", {"--nproc=2", "--comm=local"}},
             {"fsdp, 2 ranks, gloo", {"--nproc=2", "--comm=gloo", "--strategy=fsdp"}},
             {"tensor, 2 ranks, gloo", {"--mesh=tp=2", "--comm=gloo", "--strategy=tp=tensor"}},
             {"pipeline, 2 ranks, gloo", {"--mesh=pp=2", "--comm=gloo", "--strategy=pp=pipeline", "--grad-accum=4"}}};
  }

  void run_all() {
    for (int round = 0; round < std::stoi(options_.at("--rounds")); ++round)
      for (PredictedJob& job : jobs_)
        measure(job);
  }

  void print() const {
    std::printf("%s; %s, B=%s, T=%s, one thread a rank; %s rounds in turns, medians\n", processor().c_str(),
                options_.at("--model").c_str(), options_.at("--batch-size").c_str(), options_.at("--seq-len").c_str(),
                options_.at("--rounds").c_str());
    std::printf("%-38s %10s %12s %10s %10s\n", "", "ms/step", "predicted of", "least", "most");
    for (const PredictedJob& job : jobs_)
      std::printf("%-38s %10.1f %11.1f%% %9.1f%% %9.1f%%\n", job.name.c_str(), median(job.step_ms),
                  100 * median(job.ratio), 100 * *std::ranges::min_element(job.ratio),
                  100 * *std::ranges::max_element(job.ratio));
  }

 private:
  void measure(PredictedJob& job) {
    const Flags flags = Flags{"--model", model(), "--threads=1", "--log-level=error"} + sizes() + job.flags;
    const std::string rates = folder_.path("rates"), metrics = folder_.path("metrics");
    std::remove(metrics.c_str());
    run(Flags{tessera_program(), "bench", "rates", "--rates", rates} + flags);
    const json time = json::parse(run(Flags{tessera_program(), "plan", "--json", "--rates", rates} + flags))["time"];
    run(Flags{tessera_program(), "train", "--data", source_dir("runtime"), "--metrics", metrics, "--steps",
              options_.at("--steps")} +
        flags);
    job.step_ms.push_back(step_ms(metrics));
    job.ratio.push_back(time["predicted_seconds"].get<double>() * 1e3 / job.step_ms.back());
  }

  /// The median of all steps but the first, which is cold.
  static double step_ms(const std::string& metrics) {
    std::vector<double> all;
    std::ifstream lines(metrics);
    for (std::string text; std::getline(lines, text);)
      if (const json line = json::parse(text); line.contains("step_ms") && line["step"] != 1)
        all.push_back(line["step_ms"]);
    return median(all);
  }

  std::string model() const {
    const std::string& model = options_.at("--model");
    return model == "char" ? source_dir("examples/char") : model;
  }
  Flags sizes() const { return {"--batch-size", options_.at("--batch-size"), "--seq-len", options_.at("--seq-len")}; }

  const BenchOptions options_;
  const TempFolder folder_;
  std::vector<PredictedJob> jobs_;
};

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  return tessera::testing::run_bench("prediction_bench", [&] {
    tessera::testing::PredictionBench bench(tessera::testing::read_options(
        argc, argv,
        {{"--rounds", "3"}, {"--steps", "20"}, {"--batch-size", "8"}, {"--seq-len", "128"}, {"--model", "char"}}));
    bench.run_all();
    bench.print();
  });
}
