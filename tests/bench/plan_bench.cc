// How long planning takes: processor time in user mode of one `tessera plan`, the least of several rounds.
//     plan_bench [--rounds N]
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "support/command.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

struct Job {
  std::string name;
  std::vector<std::string> flags;
  double seconds = 0;
};

double seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

void plan(Job& job) {
  std::vector<std::string> command = {tessera_program(), "plan", "--log-level", "error"};
  command.insert(command.end(), job.flags.begin(), job.flags.end());
  const double before = seconds_of_children();
  const CommandResult result = Command(command).wait(std::chrono::minutes(30));
  if (result.exit_code != 0) throw std::runtime_error(job.name + ": " + result.err);
  const double seconds = seconds_of_children() - before;
  job.seconds = job.seconds == 0 ? seconds : std::min(job.seconds, seconds);
}

void bench(int argc, char** argv) {
  const BenchOptions options = read_options(argc, argv, {{"--rounds", "3"}});
  const std::vector<std::string> zero3 = {"--nproc", "1024", "--strategy", "zero3"};
  std::vector<Job> jobs = {
      {"gpt2, 1,024 ranks, zero3", {"--model", "gpt2"}},
      {"gpt2_xl, 1,024 ranks, zero3", {"--model", "gpt2_xl"}},
      {"gpt2, pp=4, gpipe, 64 micro-batches",
       {"--model", "gpt2", "--mesh", "pp=4", "--strategy", "pp=pipeline", "--pipeline.schedule", "gpipe",
        "--grad-accum", "64"}},
      {"gpt2_xl, pp=8,dp=512, pipeline and fsdp, 16 micro-batches",
       {"--model", "gpt2_xl", "--mesh", "pp=8,dp=512", "--strategy", "pp=pipeline,dp=fsdp", "--grad-accum", "16"}}};
  for (Job& job : jobs)
    if (job.flags.size() == 2) job.flags.insert(job.flags.end(), zero3.begin(), zero3.end());
  for (int round = 0; round < std::stoi(options.at("--rounds")); ++round)
    for (Job& job : jobs)
      plan(job);
  std::printf("%s; processor time of one process, the least of %s\n", processor().c_str(),
              options.at("--rounds").c_str());
  for (const Job& job : jobs)
    std::printf("%-60s %8.2f s\n", job.name.c_str(), job.seconds);
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  return tessera::testing::run_bench("plan_bench", [&] { tessera::testing::bench(argc, argv); });
}
