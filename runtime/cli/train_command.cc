// `tessera train` and `tessera eval`, which has the same ranks and no steps. By the environment and the flags, this
// process is
//
//     the only rank                      train_alone
//     one rank that a launcher started   train_as_rank_of
//     the starter of N ranks             start_ranks: as processes (launch_ranks), or as threads
//
// The starter first plans the whole job, so that a mistake is reported once, before any rank is started.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/log.h"
#include "base/read_only_file.h"
#include "base/terminal.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/save_folder.h"
#include "cli/commands.h"
#include "cli/flags_help_text.h"
#include "cli/model_folder.h"
#include "cli/outputs.h"
#include "config/default_plugins.h"
#include "config/flag_table.h"
#include "config/settings/take_settings.h"
#include "config/usage_error.h"
#include "data/examples/example_source.h"
#include "data/examples/idx_pair.h"
#include "guard/call_watch.h"
#include "guard/supervisor.h"
#include "launch/launcher.h"
#include "launch/process_setup.h"
#include "launch/rank_environment.h"
#include "launch/run_signals.h"
#include "plan/advice/memory_advisor.h"
#include "plan/job_plan.h"
#include "plan/verification.h"
#include "record/rank_record.h"
#include "record/resolved_config.h"
#include "record/run_folder.h"
#include "train/rank_process.h"
#include "train/saving/resume.h"
#include "train/thread_ranks.h"
#include "train/train_rank.h"
#include "train/try_communicator.h"

namespace tessera::host {
namespace {

/// A command line, with warnings for the log.
struct RunFlags : ParsedFlags {
  std::vector<std::string> warnings;
  std::string given, checkpoint;  // of eval: the word that names a checkpoint, and the one that was chosen; else empty
};

/// "had --data-scale none"; of a flag that was not given: "did not give it, which means column for this data".
std::string trained_text(std::string_view name, const std::string& trained, const std::string& usual) {
  if (!trained.empty()) return concat("had --", name, " ", trained);
  return usual.empty() ? "did not give it" : concat("did not give it, which means ", usual, " for this data");
}

/// Examples to evaluate on are read as those of the training were, unless a flag says otherwise.
void read_as_trained(RunFlags& flags, const std::string& folder, const RunDescription& run) {
  if (run.items != "examples") return;
  for (const std::string_view name : {"data-label", "data-scale"}) {
    const Flag& flag = *std::ranges::find(train_flags(), name, &Flag::name);
    const std::string given = flag.print(flags.config), trained = trained_setting(run, name);
    const bool applies = name != "data-label" || trained.empty() || !find_idx_pair(flags.config.data);
    if (given.empty() && !trained.empty() && applies) flag.read(flags.config, trained);
    if (given.empty()) continue;
    const std::string usual = usual_setting(name, flags.config.data);
    if (given != (trained.empty() ? usual : trained))
      flags.warnings.push_back(concat("--", name, " ", given, " differs from the training of ", folder, ", which ",
                                      trained_text(name, trained, usual),
                                      "; leave it out to read the data as it was read there"));
  }
}

/// Evaluates the chosen checkpoint.
void take_checkpoint(RunFlags& flags) {
  const RunDescription run = naming_removal(flags.given, flags.checkpoint, [&] {
    const Checkpoint checkpoint(flags.checkpoint);
    if (checkpoint.index().run.has_config) checkpoint.config_path();  // for its check
    return checkpoint.index().run;
  });
  flags.config.init_from = flags.checkpoint;
  flags.config.model = run.has_config ? flags.checkpoint : run.model;
  // Positions that were not trained would be judged with the others.
  if (flags.config.seq_len == 0) flags.config.seq_len = trained_seq_len(run);
  read_as_trained(flags, flags.checkpoint, run);
}

/// Parses them. A checkpoint to evaluate names its model, and has its parameters.
RunFlags flags_of(FlagSet set, std::span<const std::string> arguments) {
  RunFlags flags{parse_flags(set, arguments), {}, {}, {}};
  if (set != FlagSet::eval || flags.help) return flags;
  if (const auto saved = checkpoint_of(flags.config.model)) {
    flags.given = flags.config.model;
    flags.checkpoint = *saved;
    take_checkpoint(flags);
  }
  return flags;
}

/// What is thrown says that the checkpoint is gone, if it is; or of which file a path is.
template <class Work>
auto naming_causes(const RunFlags& flags, Work&& work) {
  return naming_removal(flags.given, flags.checkpoint, [&] { return naming_origin(flags, work); });
}

/// The rank's record in --out, and its log, which is copied there.
struct RecordedLog {
  RecordedLog(const ParsedFlags& flags, int rank, int num_ranks, LogLevel level)
      : record(flags.config.out, rank, Log(LogLevel::warning, rank, num_ranks)), log(level, rank, num_ranks) {
    if (record.is_on()) log.copy_to(record.log_stream());
  }
  RecordedLog(const ParsedFlags& flags, int rank, int num_ranks)
      : RecordedLog(flags, rank, num_ranks, parse_log_level(flags.config.log_level)) {}

  RankRecord record;
  Log log;
};

Job job_of(const RunFlags& flags, int num_ranks, const Log& log) {
  Job job = make_job(flags, num_ranks, log);
  for (const std::string& warning : flags.warnings)
    log.warning(warning);
  return job;
}

/// Checks what is written, and the checkpoints that are read. Throws UsageError.
void check_files(const Job& job, const ParsedFlags& flags) {
  check_outputs(job, flags);
  check_checkpoints(job);
}

/// --print-config: `num_local_ranks` will share this host.
int print_config(const ParsedFlags& flags, int num_ranks, int num_local_ranks, const Log& log) {
  const Job job = make_job(flags, num_ranks, log);
  std::cout << resolved_config(job, threads_per_rank(job.config, num_local_ranks));
  return 0;
}

/// A run that trains asks for signals before each step; from the first one on they are requests.
RankObserver with_signals(RankObserver observer, RunSignals& signals) {
  observer.on_start = [&signals, inner = observer.on_start](const RunMetrics& run) {
    inner(run);
    signals.begin_training();
  };
  observer.requests = [&signals] { return signals.requests(); };
  return observer;
}

/// Metrics, record and signals of a rank's run.
RankObserver observe(const Job& job, int rank, int num_local_ranks, RankRecord& record, RunSignals& signals) {
  RankObserver observer = write_outputs(job, rank);
  record.observe(job, threads_per_rank(job.config, num_local_ranks), observer);
  return job.trains ? with_signals(std::move(observer), signals) : observer;
}

/// Runs the rank; its record also says why it failed.
void run_recorded(RankRecord& record, const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    record.note(concat(kFails, error.what()));
    throw;
  }
}

/// An address that ranks would have met at, had a launcher started them.
void warn_of_store_address(std::string_view why, const Log& log) {
  if (std::getenv("TESSERA_STORE_ADDR"))
    log.warning("TESSERA_STORE_ADDR has no effect: ", why,
                "; to let ranks of several machines meet there, start them with a launcher (docs/launching.md)");
}

/// Of a run that is one rank because neither a launcher nor a flag says otherwise.
void warn_of_lone_rank(const TrainConfig& config, const Log& log) {
  warn_of_store_address("this job has one rank", log);
  const std::string why = missing_srun(process_environment());
  if (!why.empty() && requested_world(config) == 0) log.warning(why);
}

/// For a signal that the run has sent itself.
void end_by_own_signal(const std::string& why) {
  end_run(why);
}

int train_alone(const RunFlags& flags, const RankEnvironment& environment) {
  announce_ending_signals();
  RunSignals signals(true, end_by_own_signal);  // before plugins start threads
  RecordedLog recorded(flags, 0, 1);
  const Log& log = recorded.log;
  if (flags.print_config) return print_config(flags, 1, 1, log);
  if (environment.source == kNoLauncher) warn_of_lone_rank(flags.config, log);
  const Job job = job_of(flags, 1, log);
  check_files(job, flags);
  const auto data = open_data(job, log);
  RankInfo info;
  info.store = std::make_shared<MemoryStore>();
  run_recorded(recorded.record,
               [&] { train_rank(job, data, info, observe(job, 0, 1, recorded.record, signals), log); });
  return 0;
}

/// One rank of several, started by a launcher.
int train_as_rank(const RunFlags& flags, const RankEnvironment& environment, RankProcess& process) {
  keep_what_is_not_read();
  RunSignals signals(!process.is_launched(), end_by_own_signal);  // before plugins start threads
  ranks_to_start(requested_world(flags.config), environment);
  RecordedLog recorded(flags, environment.rank, environment.world_size);
  const Log& log = recorded.log;
  // Only one process logs about plugins and model: our launcher, or rank 0.
  const bool speaks = environment.rank == 0 && !process.is_launched();
  if (speaks) log.info("rank 0 of ", environment.world_size, ", from ", environment.source);
  require_secret(environment, flags.config.insecure, log);
  const Job job = job_of(flags, environment.world_size, speaks ? log : Log(LogLevel::off));
  if (job.ranks_are_threads())
    throw UsageError(concat("--comm ", job.config.comm, " connects threads of one process, but ", environment.source,
                            " started ", environment.world_size, " processes; give --comm ", kDefaultCommunicator,
                            ", or start one process with --nproc ", environment.world_size));
  if (environment.rank == 0) check_files(job, flags);
  const auto data = open_data(job, speaks ? log : Log(LogLevel::off));
  const int64_t reply_ms = std::min(job.config.start_timeout_ms, job.config.timeout_ms);
  return process.run(job.config.start_timeout_ms, reply_ms, log, [&](const RankInfo& info, JobWatch& watch) {
    if (environment.rank == 0 && process.is_launched())
      recorded.record.begin_with(info.store->get(kLauncherLog, reply_ms));
    RankObserver observer = observe(job, environment.rank, environment.local_size, recorded.record, signals);
    observer.on_step = [&watch, inner = observer.on_step](const StepMetrics& step) {
      inner(step);
      watch.note_step(step.step);
    };
    run_recorded(recorded.record, [&] {
      naming_removal(flags.given, flags.checkpoint, [&] { train_rank(job, data, info, observer, log); });
    });
  });
}

/// `first`: of rank 0.
int train_as_threads(const ParsedFlags& flags, const Job& job, RunSignals& signals, RecordedLog& first) {
  announce_ending_signals();
  const auto data = open_data(job, first.log);
  const int num_ranks = job.mesh.num_ranks();
  std::vector<std::unique_ptr<RecordedLog>> others;
  for (int rank = 1; rank < num_ranks; ++rank)
    others.push_back(std::make_unique<RecordedLog>(flags, rank, num_ranks, LogLevel::warning));
  const auto of = [&](int rank) -> RecordedLog& { return rank == 0 ? first : *others[static_cast<size_t>(rank - 1)]; };
  run_recorded(first.record, [&] {
    train_thread_ranks(
        job, data, [&](int rank) { return observe(job, rank, num_ranks, of(rank).record, signals); },
        [&](int rank) { return of(rank).log; });
  });
  return 0;
}

/// Starts the ranks, after all checks that one process can make for all of them.
int start_ranks(const RunFlags& flags, int num_ranks, const std::vector<std::string>& argv) {
  keep_what_is_not_read();
  RecordedLog recorded(flags, 0, num_ranks);  // of rank 0, if ranks are threads
  const Log& log = recorded.log;
  if (flags.print_config) return print_config(flags, num_ranks, num_ranks, log);
  warn_of_store_address("ranks of --nproc and --mesh meet on this machine", log);
  LaunchRequest request{own_executable(), argv, num_ranks};
  {
    RunSignals signals(true, end_by_own_signal);  // before plugins start threads
    Job unplanned = job_of(flags, num_ranks, log);
    check_files(unplanned, flags);
    open_data(unplanned, log);
    if (unplanned.config.init_from.empty()) initial_parameters(unplanned, Log(LogLevel::off));
    const JobPlan planned = with_offers(unplanned, log, [&] { return JobPlan(unplanned, log); });
    if (const auto refusal = refusal_of(planned.job(), planned.input(), planned.programs())) throw *refusal;
    const Job& job = planned.job();
    if (job.ranks_are_threads()) return train_as_threads(flags, job, signals, recorded);
    if (is_pipe(flags.config_file))
      throw UsageError(concat("--config ", flags.config_file, " is a pipe, which can be read once, and each of ",
                              num_ranks, " ranks reads it; write it to a file and give that"));
    try_communicator(job, log);
    request.finish_ms = end_of_calls_ms(job.config.timeout_ms);
    request.has_steps = job.trains;
    request.asks_to_save = job.trains && signals.requests().num_saves > 0;
  }
  request.ranks_say_when_done = true;
  request.log = recorded.record.take_log();
  const LaunchResult result = launch_ranks(request, log);
  if (!result.failure.empty()) {
    print_error(result.failure);
    recorded.record.note(result.failure);
  }
  recorded.record.append_to_log();
  return result.exit_code;
}

int train_as_rank_of(FlagSet set, const RankEnvironment& environment, std::span<const std::string> arguments) {
  RankProcess process(environment);
  if (!process.is_launched()) announce_ending_signals();
  bool may_meet = environment.is_local() || environment.has_secret;
  try {
    const RunFlags flags = flags_of(set, arguments);
    may_meet |= flags.config.insecure;
    if (flags.print_config)  // without the others
      return environment.rank == 0 ? print_config(flags, environment.world_size, environment.local_size,
                                                  Log(parse_log_level(flags.config.log_level)))
                                   : 0;
    return naming_causes(flags, [&] { return train_as_rank(flags, environment, process); });
  } catch (const std::exception& error) {
    return process.fail_before_joining(error, may_meet);
  }
}

int run_ranks(FlagSet set, std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  raise_descriptor_limit();
  if (std::ranges::count(arguments, "--help") + std::ranges::count(arguments, "-h") > 0) {
    std::cout << flags_help_text(flags_of(set, arguments));
    return 0;
  }
  const RankEnvironment environment = read_rank_environment(process_environment(), starter_of_program());
  if (environment.world_size > 1) return train_as_rank_of(set, environment, arguments);
  return choosing_again([&] {
    const RunFlags flags = flags_of(set, arguments);
    const int num_ranks = ranks_to_start(requested_world(flags.config), environment);
    return naming_causes(
        flags, [&] { return num_ranks <= 1 ? train_alone(flags, environment) : start_ranks(flags, num_ranks, argv); });
  });
}

}  // namespace

int train_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  hold_save_requests();
  return run_ranks(FlagSet::train, arguments, argv);
}

int eval_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  return run_ranks(FlagSet::eval, arguments, argv);
}

}  // namespace tessera::host
