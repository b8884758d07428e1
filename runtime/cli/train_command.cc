#include <unistd.h>

#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "config/usage_error.h"
#include "launch/job_store.h"
#include "launch/launcher.h"
#include "launch/rank_environment.h"
#include "train/local_ranks.h"

namespace tessera {
namespace {

/// Whether the communicator keeps all ranks in one process, so that ranks are threads.
bool ranks_are_threads(const TrainConfig& config, const Log& log) {
  const auto folders = plugin_folders(config.plugin_dirs);
  const LoadedPlugin plugin = load_plugin(PluginKind::communicator, config.comm, folders, log);
  const LoadedPlugin device = load_plugin(PluginKind::device, config.device, folders, log);
  tsr_comm_caps caps{};
  caps.struct_size = sizeof caps;
  call(plugin.communicator()->caps, device.device()->stream_kind, &caps);
  return (caps.flags & TSR_COMM_ONE_PROCESS) != 0;
}

RankObserver write_metrics(const TrainConfig& config, int rank) {
  RankObserver observer;
  if (rank != 0 || config.metrics.empty()) return observer;
  const auto writer = std::make_shared<MetricsWriter>(config.metrics);
  observer.on_step = [writer](const StepMetrics& step) { writer->write(step); };
  return observer;
}

int train_as_rank(const ParsedFlags& flags, const RankEnvironment& environment) {
  const Log log(parse_log_level(flags.config.log_level), environment.rank, environment.world_size);
  if (environment.rank == 0 && environment.world_size > 1)
    log.info("rank ", environment.rank, " of ", environment.world_size, ", from ", environment.source);
  const Job job = make_job(flags, environment.world_size, log);
  const auto data = open_tokens(job.config.data, job.gpt2.vocab);
  const JobStore store = join_job(environment, job.config.start_timeout_ms, log);
  const RankPlace place{environment.rank, environment.local_rank, environment.local_size, environment.is_local(),
                        store.store,      [] { return false; }};
  train_rank(job, *data, place, write_metrics(job.config, environment.rank), log);
  return 0;
}

int train_as_threads(const ParsedFlags& flags, int num_ranks) {
  const Log log(parse_log_level(flags.config.log_level), 0, num_ranks);
  const Job job = make_job(flags, num_ranks, log);
  const auto data = open_tokens(job.config.data, job.gpt2.vocab);
  train_local_ranks(
      job, *data, [&](int rank) { return write_metrics(job.config, rank); }, log);
  return 0;
}

/// Before any process is started: what is wrong with the flags is said once.
void check_before_launch(const ParsedFlags& flags, int num_ranks) {
  const Job job = make_job(flags, num_ranks, Log(LogLevel::off));
  open_tokens(job.config.data, job.gpt2.vocab);
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
  const Log log(parse_log_level(flags.config.log_level));
  if (ranks_are_threads(flags.config, log)) return train_as_threads(flags, to_start);
  check_before_launch(flags, to_start);
  return launch_ranks({own_executable(), argv, to_start}, log);
}

}  // namespace tessera
