#include <unistd.h>

#include <iostream>

#include "cli/commands.h"
#include "cli/outputs.h"
#include "launch/job_store.h"
#include "launch/launcher.h"
#include "launch/rank_environment.h"
#include "train/local_ranks.h"
#include "train/planned_job.h"
#include "train/what_fits.h"

namespace tessera {
namespace {

int train_as_rank(const ParsedFlags& flags, const RankEnvironment& environment) {
  const Log log(parse_log_level(flags.config.log_level), environment.rank, environment.world_size);
  if (environment.rank == 0 && environment.world_size > 1)
    log.info("rank ", environment.rank, " of ", environment.world_size, ", from ", environment.source);
  const Job job = make_job(flags, environment.world_size, log);
  check_metrics(job, environment.rank);
  const auto data = open_data(job);
  const JobStore store = join_job(environment, job.config.start_timeout_ms, log);
  const RankPlace place{environment.rank, environment.local_rank, environment.local_size, environment.is_local(),
                        store.store,      [] { return false; }};
  train_rank(job, *data, place, write_metrics(job, environment.rank), log);
  return 0;
}

int train_as_threads(const Job& job, const Log& log) {
  const auto data = open_data(job);
  train_local_ranks(
      job, *data, [&](int rank) { return write_metrics(job, rank); }, log);
  return 0;
}

}  // namespace

int train_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  const ParsedFlags flags = parse_flags(FlagSet::train, arguments);
  if (flags.help) {
    std::cout << flags_help(FlagSet::train);
    return 0;
  }
  const RankEnvironment environment = read_rank_environment(process_environment(), getppid());
  const int to_start = ranks_to_start(requested_world(flags.config), environment);
  if (to_start <= 1) return train_as_rank(flags, environment);
  const Log log(parse_log_level(flags.config.log_level), 0, to_start);
  Job job = make_job(flags, to_start, log);
  check_metrics(job, 0);
  if (job.ranks_are_threads()) return train_as_threads(job, log);
  // What is wrong with the flags is said once, before any process is started.
  open_data(job);
  if (job.config.device_memory) {
    const PlannedJob planned(std::move(job), log);
    require_fit(planned.job(), planned.programs());
  }
  return launch_ranks({own_executable(), argv, to_start}, log);
}

}  // namespace tessera
