// A rank, from its plugins to its last step. train_rank() at the end of the file is the whole of it, in order; the
// functions before it prepare its arguments. The ranks meet to compare settings, then programs (consistency.cc), before
// communicators are created, before the first step, and at the end, so that none closes connections that others need.

#include "train/train_rank.h"

#include <algorithm>

#include "base/concat.h"
#include "base/progress.h"
#include "base/resident_memory.h"
#include "checkpoint/held_state.h"
#include "config/usage_error.h"
#include "guard/plugin_calls.h"
#include "guard/process_state.h"
#include "job/job_policies.h"
#include "machine/cgroup.h"
#include "plan/format.h"
#include "plan/job_plan.h"
#include "plugins/host_services.h"
#include "tessera/error.hpp"
#include "train/consistency.h"
#include "train/meters/memory_meter.h"
#include "train/meters/move_meter.h"
#include "train/meters/time_meter.h"
#include "train/offload_space.h"
#include "train/rank_cores.h"
#include "train/report/report.h"
#include "train/saving/resume.h"
#include "train/saving/save.h"
#include "train/train_steps.h"

namespace tessera::host {
namespace {

int num_threads(const Job& job, const RankInfo& info) {
  return threads_per_rank(job.config, info.num_local_ranks);
}

void warn_of_threads(const Job& job, const RankInfo& info, const Log& log) {
  const int threads = num_threads(job, info), ranks = info.num_local_ranks;
  const int cores = num_cores();
  const bool may_be_divided = !info.started_together && ranks > 1;  // a launcher may have given each rank its own
  if (int64_t{threads} * ranks <= cores || (may_be_divided && job.config.threads > 0)) return;
  const std::string of_ranks =
      ranks == 1 ? concat(threads, " threads") : concat(ranks, " ranks of ", counted(threads, "thread"), " each");
  log.warning(of_ranks, " share ", counted(cores, "core"), " of this host and slow one another down; lower ",
              ranks == 1     ? "--threads"
              : threads == 1 ? "--nproc"
                             : "--threads or --nproc",
              may_be_divided ? "; if the launcher gives each rank cores of its own, say how many with --threads" : "");
}

/// The system lends more memory than it has, and later ends a process that uses it.
void warn_of_memory(const Job& job, const RankInfo& info, const RankPrograms& programs, const Log& log) {
  const uint64_t copy = job.config.save_async ? owned_bytes(programs.first()) : 0;
  const uint64_t own = programs.arena_bytes(TSR_MEMORY_DEVICE) + programs.arena_bytes(TSR_MEMORY_HOST) + copy;
  const uint64_t all = own * static_cast<uint64_t>(info.num_local_ranks), usable = usable_memory();
  if (usable == 0 || all <= usable) return;
  log.warning("the ", counted(info.num_local_ranks, "rank"), " on this host need ", human_bytes(all),
              " of memory, and the host or its container has ", human_bytes(usable),
              ": the system may end the run; `tessera plan` with the same flags shows what takes it");
}

GraphOptions graph_options(const Job& job, const RankInfo& info, const Log& log) {
  GraphOptions graphs;
  graphs.is_on = job.config.cuda_graph == CudaGraph::automatic;
  graphs.all_agree = [&job, info, num_asked = 0](bool captured) mutable {
    // All ranks ask after the same runs of the program, so a counter gives them equal questions.
    const std::string question = "captured/" + std::to_string(num_asked++);
    return all_ranks_agree(info, job.mesh.num_ranks(), question, captured, job.config.timeout_ms);
  };
  graphs.warn = [log](const std::string& why) { log.warning(why); };
  return graphs;
}

RankSetup rank_setup(const Job& job, const RankInfo& info, const HostServices& host,
                     std::span<const StrategyOnAxis> strategies, const Log& log) {
  const auto index = static_cast<uint32_t>(info.local_rank);
  const auto threads = static_cast<uint32_t>(num_threads(job, info));
  RankSetup setup;
  const auto device = [&](const LoadedPlugin& plugin, const PluginOptions& options) {
    return DeviceSetup{plugin.device(), options.values(), index, threads, host.of(plugin)};
  };
  setup.device = device(job.plugins.device, job.options.device);
  if (!job.computes_on_host()) setup.host_device = device(job.plugins.cpu, job.options.cpu);
  setup.device_memory_is_host = job.computes_on_host();
  setup.stages_collectives = job.staged.collectives;
  setup.tests = {true, job.comm_claims.sums_float32(), (job.comm_claims.flags & TSR_COMM_CANONICAL_SUM) != 0};
  setup.files = {job.config.offload_dirs, 0, job.config.offload_io, job.config.offload_check, job.config.timeout_ms};
  setup.log = log;
  setup.communicators = communicator_setup(job, info, host);
  setup.communicators.has_clock = setup.device_memory_is_host || setup.stages_collectives;
  setup.strategies = strategies;
  setup.debug = {job.config.debug_memory, job.config.debug_memory ? kBufferAlignment : 0, job.config.stream_delay,
                 job.config.debug_replicas > 0};
  setup.graphs = graph_options(job, info, log);
  setup.cancelled = info.cancelled;
  setup.before_joining = [&job, info, log] {
    barrier(info, job.mesh.num_ranks(), "open their devices", job.config.start_timeout_ms, log);
  };
  return setup;
}

RunMetrics run_metrics(const Job& job, const RankRuntime& runtime, const LoadedRun& loaded) {
  const MemoryReport planned = largest_program(runtime.programs()).memory;
  RunMetrics run;
  name_run(run);
  run.model = job.config.model;
  run.mesh = mesh_text(job);
  run.world_size = job.mesh.num_ranks();
  run.steps = job.config.steps;
  run.resumed_step = loaded.state.value_or(RunState()).step;
  run.load_ms = loaded.ms;
  run.items = job.items();
  run.tokens_per_step = job.tokens_per_step();
  run.planned_peak_bytes = static_cast<int64_t>(planned.arena_bytes);
  for (const MemoryClass what : all_memory_classes())
    run.planned_bytes.emplace_back(class_key(what), planned.peak[what]);
  run.planned_bytes.emplace_back("waste", planned.waste_bytes());
  return run;
}

void warn_of_data(const Log& log, const Job& job, const RunData& data) {
  for (const Dataset* dataset : {data.training.get(), data.evaluation.get()})
    if (dataset) {
      DatasetUse use = dataset_use(job);
      if (dataset == data.evaluation.get()) use.steps = 0;  // an evaluation reads it once, however short it is
      for (const std::string& warning : dataset->warnings(use))
        log.warning(warning);
    }
  if (!data.training || !data.evaluation) return;
  const auto form = [](const Dataset& d) { return d.tokens_are_bytes() ? "text" : "token files"; };
  if (data.training->tokens_are_bytes() != data.evaluation->tokens_are_bytes())
    log.warning("--data is ", form(*data.training), " and --eval-data ", form(*data.evaluation),
                ": the model is evaluated on other tokens than it is trained on; give both in one form");
}

}  // namespace

CommunicatorSetup communicator_setup(const Job& job, const RankInfo& info, const HostServices& host) {
  CommunicatorSetup setup;
  setup.start_timeout_ms = job.config.start_timeout_ms;
  setup.timeout_ms = job.config.timeout_ms;
  if (!job.plugins.communicator) return setup;
  setup.api = job.plugins.communicator->communicator();
  setup.host = host.of(*job.plugins.communicator);
  setup.options = job.options.communicator.values();
  setup.is_local = info.is_local;
  setup.store_host = info.store_host;
  setup.cancelled = info.cancelled;
  setup.is_capturable = (job.comm_claims.flags & TSR_COMM_CAPTURABLE) != 0;
  return setup;
}

void train_rank(const Job& job, const RunData& data, const RankInfo& info, const RankObserver& observer,
                const Log& log) {
  TimeMeter times;
  if (job.mesh.num_ranks() > 1) name_rank_of_this_thread(info.rank);
  const HostServices host(log, info.store);
  const JobStrategies strategies = as_usage([&] { return JobStrategies(job, host); });
  const JobPolicies policies = as_usage([&] { return JobPolicies(job, host); });

  // Nothing below may depend on a setting that was not compared.
  check_job_consistency(job, data, info, num_threads(job, info), log);
  const Log first_log = info.rank == 0 ? log : Log(LogLevel::off);  // for lines that are the same on all ranks
  if (job.computes_on_host()) warn_of_threads(job, info, first_log);
  const CompileInput input = compile_input(job, strategies.all(), policies.all(), first_log);
  RankPrograms programs = check_program_consistency(job, input, info, observer.on_planned);
  check_offload_space(job, programs, info);
  if (job.computes_on_host()) warn_of_memory(job, info, programs, first_log);

  // Measured here, so that the report can separate the arena from earlier memory.
  const int64_t process_before = resident_memory().now_bytes;
  const CoreBinding cores = bind_rank(job, info);  // before any thread of this rank is started
  RankRuntime runtime(rank_setup(job, info, host, strategies.all(), log), std::move(programs));
  MemoryMeter meter(runtime, process_before);
  ReplicaCheck replicas(job, info, runtime);
  // For ranks that share a device: while one prepares, its allocations and loads could wait for a stream of another
  // rank that in turn waits for it.
  barrier(info, job.mesh.num_ranks(), "prepare their programs", job.config.start_timeout_ms, log);
  if (info.rank == 0) {
    // Until here a second process that claims a rank ends the job, since two jobs may share a port; from here on it is
    // only refused.
    info.store->set(kJobStarted, "");
    report_start(log, job, data, runtime, {num_threads(job, info), cores.is_bound()});
    warn_of_data(log, job, data);
  }
  // The files of the run are opened from here on. The self-tests have run, and the process is not compared around them.
  require_paths_of_program();
  const LoadedRun loaded = load_run(job, data, info, runtime, first_log);
  if (!loaded.is_filled) {
    Progress progress(first_log, "filling the parameters");
    runtime.initialize(*initial_parameters(job, first_log, num_threads(job, info)), &progress);
  }
  const RunState start = loaded.state.value_or(RunState());
  CheckpointSaver saver(job, data, info, observer, runtime, start, first_log);
  // A rank may detect only now that its weights are not finite, and a run that is refused must not write metrics.
  barrier(info, job.mesh.num_ranks(), "fill their parameters", job.config.start_timeout_ms, log);
  observer.on_start(run_metrics(job, runtime, loaded));
  MoveMeter moves(job, runtime);
  Profiler profiler(job, info, observer, runtime, start.step, first_log);
  times.begin_steps();
  const RankParts parts{job, data, info, observer, log, first_log, runtime, replicas, meter, moves, profiler, times};
  RunEnd end;
  try {
    if (job.trains)
      end = train_steps(parts, saver, start);
    else
      evaluate_once(parts);
  } catch (const Error& error) {
    // First: a save that is under way would wait for the rank that does not come.
    if (error.rank() >= 0) info.tell_failure(error);
    throw;
  }
  observer.on_end(runtime);
  barrier(info, job.mesh.num_ranks(), "end", job.config.timeout_ms, log);
  if (info.rank == 0) report_end(log, job, runtime, end, {meter.measure(), moves.in_run(), times, profiler.time_use()});
  // All ranks know of it: rank 0 tells the job, and the others end because of it.
  if (!end.save_error.empty()) throw Error(TSR_E_UNAVAILABLE, unsaved_text(job, end), info.rank == 0 ? -1 : 0);
  if (const std::string error = observer.output_error(); !error.empty()) throw Error(TSR_E_UNAVAILABLE, error);
}

}  // namespace tessera::host
