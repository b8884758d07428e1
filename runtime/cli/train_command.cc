// `tessera train` and `tessera eval`, which has the same ranks and no steps. By the environment and the flags, this
// process is
//
//     the only rank                      train_alone
//     one rank that a launcher started   train_as_rank_of
//     the starter of N ranks             start_ranks: as processes (launch_ranks), or as threads
//
// The starter first plans the whole job, so that a mistake is reported once, before any rank is started.

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/concat.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/flags_help_text.h"
#include "cli/model_folder.h"
#include "cli/outputs.h"
#include "config/default_plugins.h"
#include "config/usage_error.h"
#include "launch/launcher.h"
#include "launch/process_setup.h"
#include "launch/rank_environment.h"
#include "launch/run_signals.h"
#include "plan/advice/memory_advisor.h"
#include "plan/job_plan.h"
#include "plan/verification.h"
#include "train/rank_process.h"
#include "train/saving/resume.h"
#include "train/thread_ranks.h"
#include "train/train_rank.h"
#include "train/try_communicator.h"

namespace tessera::host {
namespace {

/// Parses them. A checkpoint to evaluate names its model, and has its parameters.
ParsedFlags flags_of(FlagSet set, std::span<const std::string> arguments) {
  ParsedFlags flags = parse_flags(set, arguments);
  if (set != FlagSet::eval || flags.help) return flags;
  if (const auto saved = checkpoint_of(flags.config.model)) {
    const RunDescription run = Checkpoint(*saved).index().run;
    flags.config.init_from = *saved;
    flags.config.model = run.has_config ? *saved : run.model;
    // Positions that were not trained would be judged with the others.
    if (flags.config.seq_len == 0) flags.config.seq_len = trained_seq_len(run);
  }
  return flags;
}

Log rank_log(const ParsedFlags& flags, int rank, int num_ranks) {
  return Log(parse_log_level(flags.config.log_level), rank, num_ranks);
}

/// The run asks for signals before each step; from the first one on they are requests.
RankObserver with_signals(RankObserver observer, RunSignals& signals) {
  observer.on_start = [&signals, inner = observer.on_start](const RunMetrics& run) {
    inner(run);
    signals.begin_training();
  };
  observer.requests = [&signals] { return signals.requests(); };
  return observer;
}

int train_alone(const ParsedFlags& flags) {
  announce_ending_signals();
  RunSignals signals(true);  // before plugins start threads
  const Log log = rank_log(flags, 0, 1);
  const Job job = make_job(flags, 1, log);
  check_metrics(job, 0);
  check_save(job);
  check_checkpoints(job);
  const auto data = open_data(job, log);
  RankInfo info;
  info.store = std::make_shared<MemoryStore>();
  train_rank(job, data, info, with_signals(write_metrics(job, 0), signals), log);
  return 0;
}

/// One rank of several, started by a launcher.
int train_as_rank(const ParsedFlags& flags, const RankEnvironment& environment, RankProcess& process) {
  RunSignals signals(!process.is_launched());  // before plugins start threads
  ranks_to_start(requested_world(flags.config), environment);
  const Log log = rank_log(flags, environment.rank, environment.world_size);
  // Only one process logs about plugins and model: our launcher, or rank 0.
  const bool speaks = environment.rank == 0 && !process.is_launched();
  if (speaks) log.info("rank 0 of ", environment.world_size, ", from ", environment.source);
  require_secret(environment, flags.config.insecure, log);
  const Job job = make_job(flags, environment.world_size, speaks ? log : Log(LogLevel::off));
  if (job.ranks_are_threads())
    throw UsageError(concat("--comm ", job.config.comm, " connects threads of one process, but ", environment.source,
                            " started ", environment.world_size, " processes; give --comm ", kDefaultCommunicator,
                            ", or start one process with --nproc ", environment.world_size));
  check_metrics(job, environment.rank);
  if (environment.rank == 0) {
    check_save(job);
    check_checkpoints(job);
  }
  const auto data = open_data(job, speaks ? log : Log(LogLevel::off));
  const int64_t reply_ms = std::min(job.config.start_timeout_ms, job.config.timeout_ms);
  return process.run(job.config.start_timeout_ms, reply_ms, log, [&](const RankInfo& info, JobWatch& watch) {
    RankObserver observer = with_signals(write_metrics(job, environment.rank), signals);
    observer.on_step = [&watch, inner = observer.on_step](const StepMetrics& step) {
      inner(step);
      watch.note_step(step.step);
    };
    train_rank(job, data, info, observer, log);
  });
}

int train_as_threads(const Job& job, RunSignals& signals, const Log& log) {
  announce_ending_signals();
  const auto data = open_data(job, log);
  train_thread_ranks(
      job, data, [&](int rank) { return with_signals(write_metrics(job, rank), signals); }, log);
  return 0;
}

/// Starts the ranks, after all checks that one process can make for all of them.
int start_ranks(const ParsedFlags& flags, int num_ranks, const std::vector<std::string>& argv) {
  const Log log = rank_log(flags, 0, num_ranks);
  LaunchRequest request{own_executable(), argv, num_ranks};
  {
    RunSignals signals(true);  // before plugins start threads
    Job unplanned = make_job(flags, num_ranks, log);
    check_metrics(unplanned, 0);
    check_save(unplanned);
    check_checkpoints(unplanned);
    open_data(unplanned, log);
    initial_parameters(unplanned, Log(LogLevel::off));
    const JobPlan planned = with_offers(unplanned, log, [&] { return JobPlan(unplanned, log); });
    if (const auto refusal = refusal_of(planned.job(), planned.input(), planned.programs())) throw *refusal;
    const Job& job = planned.job();
    if (job.ranks_are_threads()) return train_as_threads(job, signals, log);
    try_communicator(job, log);
    request.finish_ms = job.config.timeout_ms;
  }
  const LaunchResult result = launch_ranks(request, log);
  if (!result.failure.empty()) print_error(result.failure);
  return result.exit_code;
}

int train_as_rank_of(FlagSet set, const RankEnvironment& environment, std::span<const std::string> arguments) {
  RankProcess process(environment);
  if (!process.is_launched()) announce_ending_signals();
  bool may_meet = environment.is_local() || environment.has_secret;
  try {
    const ParsedFlags flags = flags_of(set, arguments);
    may_meet |= flags.config.insecure;
    if (flags.help) {
      std::cout << flags_help_text(flags);
      return 0;
    }
    return train_as_rank(flags, environment, process);
  } catch (const std::exception& error) {
    return process.fail_before_joining(error, may_meet);
  }
}

int run_ranks(FlagSet set, std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  raise_descriptor_limit();
  const RankEnvironment environment = read_rank_environment(process_environment(), getppid());
  if (environment.world_size > 1) return train_as_rank_of(set, environment, arguments);
  const ParsedFlags flags = flags_of(set, arguments);
  if (flags.help) {
    std::cout << flags_help_text(flags);
    return 0;
  }
  const int num_ranks = ranks_to_start(requested_world(flags.config), environment);
  return num_ranks <= 1 ? train_alone(flags) : start_ranks(flags, num_ranks, argv);
}

}  // namespace

int train_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  return run_ranks(FlagSet::train, arguments, argv);
}

int eval_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  return run_ranks(FlagSet::eval, arguments, argv);
}

}  // namespace tessera::host
