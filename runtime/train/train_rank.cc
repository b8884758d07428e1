#include "train/train_rank.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "data/batch_order.h"
#include "observe/resident_memory.h"
#include "optim/learning_rate.h"
#include "optim/loss_scaler.h"
#include "plugins/host_services.h"
#include "train/agree.h"
#include "train/memory_meter.h"
#include "train/planned_job.h"
#include "train/report.h"
#include "train/text.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

int num_threads(const Job& job, const RankPlace& place) {
  if (job.config.threads > 0) return job.config.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / place.num_local_ranks);
}

/// The options of the plugins that a rank opens.
struct RankOptions {
  PluginOptions device, cpu;
  std::optional<PluginOptions> comm;

  explicit RankOptions(const Job& job)
      : device(job.plugins.device, "", job.plugin_flags), cpu(job.plugins.cpu, "", job.plugin_flags) {
    if (job.plugins.communicator) comm.emplace(*job.plugins.communicator, "", job.plugin_flags);
  }
};

CommunicatorSetup communicator_setup(const Job& job, const RankPlace& place, const tsr_host* host,
                                     const RankOptions& options) {
  CommunicatorSetup setup;
  if (!job.plugins.communicator) return setup;
  setup.api = job.plugins.communicator->communicator();
  setup.host = host;
  setup.options = options.comm->values();
  setup.is_local = place.is_local;
  setup.store_host = place.store_host;
  setup.start_timeout_ms = job.config.start_timeout_ms;
  setup.timeout_ms = job.config.timeout_ms;
  setup.is_capturable = (job.comm_flags & TSR_COMM_CAPTURABLE) != 0;
  return setup;
}

GraphOptions graph_options(const Job& job, const RankPlace& place, const Log& log) {
  GraphOptions graphs;
  graphs.is_on = job.config.cuda_graph == CudaGraph::automatic;
  graphs.all_agree = [&job, place, num_asked = 0](bool captured) mutable {
    const std::string question = "captured/" + std::to_string(num_asked++);
    return all_say_yes(place, job.mesh.num_ranks(), question, captured, job.config.timeout_ms);
  };
  graphs.warn = [log](const std::string& why) { log.warning(why); };
  return graphs;
}

RankSetup rank_setup(const Job& job, const RankPlace& place, const tsr_host* host,
                     std::span<const StrategyOnAxis> strategies, const RankOptions& options, const Log& log) {
  const auto index = static_cast<uint32_t>(place.local_rank);
  const auto threads = static_cast<uint32_t>(num_threads(job, place));
  RankSetup setup;
  setup.device = {job.plugins.device.device(), options.device.values(), index, threads};
  if (job.staged.collectives) setup.comm_device = {job.plugins.cpu.device(), options.cpu.values(), index, threads};
  setup.host = host;
  setup.communicators = communicator_setup(job, place, host, options);
  setup.strategies = strategies;
  setup.debug = {job.config.debug_memory, job.config.debug_memory ? kBufferAlignment : 0, job.config.stream_delay};
  setup.graphs = graph_options(job, place, log);
  setup.cancelled = place.cancelled;
  setup.before_joining = [&job, place] {
    wait_for_all(place, job.mesh.num_ranks(), "ready", job.config.start_timeout_ms);
  };
  return setup;
}

/// The micro-batches of one step, and on to the next.
std::vector<MicroBatch> next_batches(const Job& job, BatchOrder& order, int data_rank) {
  const auto tokens = static_cast<size_t>(job.config.batch_size * job.config.seq_len);
  std::vector<MicroBatch> batches(static_cast<size_t>(job.config.grad_accum));
  for (MicroBatch& batch : batches) {
    batch.inputs.resize(tokens);
    batch.targets.resize(tokens);
    order.read(data_rank, batch.inputs, batch.targets);
    order.advance();
  }
  return batches;
}

/// What does not change from step to step.
StepMetrics planned_metrics(const RankRuntime& runtime) {
  const MemoryReport planned = largest_program(runtime.programs()).memory;
  StepMetrics metrics;
  metrics.planned_peak_bytes = static_cast<int64_t>(planned.arena_bytes);
  for (const MemoryClass what : all_memory_classes())
    metrics.planned_bytes.emplace_back(class_key(what), planned.peak[what]);
  metrics.planned_bytes.emplace_back("waste", planned.waste_bytes());
  return metrics;
}

void train_steps(const Job& job, const TokenSource& data, RankRuntime& runtime, MemoryMeter& meter,
                 const RankPlace& place, const RankObserver& observer, const Log& log) {
  const Coordinates coordinates = job.mesh.coordinates(place.rank);
  const int data_rank = job.mesh.data_rank(coordinates);
  BatchOrder order(data, job.config.batch_size, job.config.seq_len, job.mesh.num_data_ranks());
  LossScaler scaler(runtime.scales_loss());
  StepMetrics line = planned_metrics(runtime);
  for (int64_t step = 0; step < job.config.steps; ++step) {
    const auto start = Clock::now();
    const auto batches = next_batches(job, order, data_rank);
    const double lr = learning_rate(job.config, step);
    const double loss_scale = scaler.scale();
    const StepResult result = runtime.run_step(static_cast<uint64_t>(step), lr, loss_scale, batches);
    scaler.update(result.updated);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const auto tokens = static_cast<double>(job.tokens_per_step());
    line.step = step + 1;
    line.loss = result.loss_sum / tokens;
    line.grad_norm = result.grad_norm;
    line.lr = lr;
    line.loss_scale = loss_scale;
    line.step_ms = seconds * 1e3;
    line.tokens_per_second = tokens / seconds;
    line.tokens = job.tokens_per_step() * (step + 1);
    const MeasuredMemory memory = meter.measure();
    line.memory_bytes = memory.now_bytes;
    line.peak_memory_bytes = memory.peak_bytes;
    observer.on_step(line);
    if (place.rank == 0) report_step(log, line, job.config.steps, result.updated, scaler);
  }
}

}  // namespace

void train_rank(const Job& job, const TokenSource& data, const RankPlace& place, const RankObserver& observer,
                const Log& log) {
  const HostServices host(log, place.store);
  const JobStrategies strategies(job, host.table());
  const RankOptions options(job);

  agree_on_job(job, data, place, num_threads(job, place));
  const CompileInput input = compile_input(job, strategies.all());
  RankPrograms programs = compile_rank(input, job.mesh.coordinates(place.rank));
  agree_on_programs(job, input, programs, place);

  const int64_t process_before = resident_memory().now_bytes;
  RankRuntime runtime(rank_setup(job, place, host.table(), strategies.all(), options, log), std::move(programs));
  MemoryMeter meter(runtime, process_before);
  // Ranks that share a device: what one allocates and loads in preparation could wait for a stream of another, which
  // in turn waits for it.
  wait_for_all(place, job.mesh.num_ranks(), "prepared", job.config.start_timeout_ms);
  if (place.rank == 0) report_start(log, job, data, runtime);
  runtime.initialise(*initial_parameters(job, place.rank == 0 ? log : Log(LogLevel::off)));
  train_steps(job, data, runtime, meter, place, observer, log);
  observer.on_end(runtime);
  wait_for_all(place, job.mesh.num_ranks(), "end", job.config.timeout_ms);
  if (place.rank == 0) report_end(log, job, runtime, meter.measure());
}

}  // namespace tessera
