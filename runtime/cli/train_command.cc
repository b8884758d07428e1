#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "cli/commands.h"
#include "config/usage_error.h"
#include "launch/job_store.h"
#include "launch/launcher.h"
#include "launch/rank_environment.h"
#include "train/local_ranks.h"
#include "train/planned_job.h"
#include "train/what_fits.h"

namespace tessera {
namespace {

/// Rank 0 writes the metrics. The file is made at the first step: a run that is refused leaves an older one alone.
RankObserver write_metrics(const TrainConfig& config, int rank) {
  RankObserver observer;
  if (rank != 0 || config.metrics.empty()) return observer;
  observer.on_step = [path = config.metrics,
                      writer = std::shared_ptr<MetricsWriter>()](const StepMetrics& step) mutable {
    if (!writer) writer = std::make_shared<MetricsWriter>(path);
    writer->write(step);
  };
  return observer;
}

void check_metrics_path(const TrainConfig& config) {
  if (!config.metrics.empty() && !std::ofstream(config.metrics, std::ios::app))
    throw UsageError("--metrics " + config.metrics + " cannot be written: " + std::strerror(errno));
}

int train_as_rank(const ParsedFlags& flags, const RankEnvironment& environment) {
  const Log log(parse_log_level(flags.config.log_level), environment.rank, environment.world_size);
  if (environment.rank == 0 && environment.world_size > 1)
    log.info("rank ", environment.rank, " of ", environment.world_size, ", from ", environment.source);
  const Job job = make_job(flags, environment.world_size, log);
  const auto data = open_data(job);
  const JobStore store = join_job(environment, job.config.start_timeout_ms, log);
  const RankPlace place{environment.rank, environment.local_rank, environment.local_size, environment.is_local(),
                        store.store,      [] { return false; },   environment.store_host};
  train_rank(job, *data, place, write_metrics(job.config, environment.rank), log);
  return 0;
}

int train_as_threads(const Job& job, const Log& log) {
  const auto data = open_data(job);
  train_local_ranks(
      job, *data, [&](int rank) { return write_metrics(job.config, rank); }, log);
  return 0;
}

}  // namespace

int train_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  const ParsedFlags flags = parse_flags(FlagSet::train, arguments);
  if (flags.help) {
    std::cout << flags_help(FlagSet::train);
    return 0;
  }
  check_metrics_path(flags.config);
  const RankEnvironment environment = read_rank_environment(process_environment(), getppid());
  const int to_start = ranks_to_start(requested_world(flags.config), environment);
  if (to_start <= 1) return train_as_rank(flags, environment);
  const Log log(parse_log_level(flags.config.log_level), 0, to_start);
  Job job = make_job(flags, to_start, log);
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
