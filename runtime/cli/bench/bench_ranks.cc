// The three ways in which ranks of a benchmark exist, decided in this order:
//
//     a launcher started this process as a rank      it joins the job and runs the body
//     several ranks, as processes                    it starts N copies of itself with its own argv, and waits
//     one rank, or ranks as threads                  the body runs here, once for each rank
//
// Copies find the variables of our launcher, and so take the first way. The limit of open files is raised before any of
// them: the job's store needs a few for each rank.

#include "cli/bench/bench_ranks.h"

#include "base/concat.h"
#include "cli/standard_files.h"
#include "config/default_plugins.h"
#include "config/usage_error.h"
#include "guard/call_watch.h"
#include "launch/launcher.h"
#include "launch/memory_store.h"
#include "launch/process_setup.h"
#include "train/rank_process.h"
#include "train/thread_ranks.h"

namespace tessera::host {
namespace {

int run_launched_rank(const BenchRanks& ranks, const RankEnvironment& environment, const Log& log,
                      const std::function<void(const RankInfo& info)>& body) {
  if (ranks.are_threads)
    throw UsageError(concat("this communicator connects threads of one process, but ", environment.source, " started ",
                            environment.world_size, " processes; give --comm ", kDefaultCommunicator,
                            ", or start one process with --nproc ", environment.world_size));
  require_secret(environment, ranks.is_insecure, log);
  RankProcess process(environment);
  if (!process.is_launched()) announce_ending_signals();
  return process.run(ranks.start_timeout_ms, ranks.timeout_ms, log, [&](const RankInfo& info, JobWatch&) {
    body(info);
    require_written_output();
  });
}

int start_processes(const BenchRanks& ranks, const Log& log) {
  LaunchRequest request{own_executable(), *ranks.argv, ranks.num_ranks};
  request.finish_ms = end_of_calls_ms(ranks.timeout_ms);
  request.has_steps = false;
  request.ranks_say_when_done = true;
  const LaunchResult result = launch_ranks(request, log);
  if (!result.failure.empty()) print_error(result.failure);
  return result.exit_code;
}

}  // namespace

int run_bench_ranks(const BenchRanks& ranks, const RankEnvironment& environment, const Log& log,
                    const std::function<void(const RankInfo& info)>& body) {
  raise_descriptor_limit();
  set_call_timeouts({ranks.start_timeout_ms, ranks.timeout_ms});
  if (environment.world_size > 1) return run_launched_rank(ranks, environment, log, body);
  if (ranks.num_ranks > 1 && !ranks.are_threads) return start_processes(ranks, log);
  announce_ending_signals();
  ignore_save_requests();
  if (ranks.num_ranks > 1)
    run_thread_ranks(ranks.num_ranks, body);
  else
    body({0, 0, 1, true, std::make_shared<MemoryStore>()});
  return 0;
}

}  // namespace tessera::host
