#include "mutation_job.h"

#include <cstring>
#include <thread>

#include "base/concat.h"
#include "exec/rank_runtime.h"
#include "launch/memory_store.h"
#include "model/initial_values.h"
#include "passes/dependencies.h"
#include "tessera/error.hpp"
#include "verify/verify.h"
#include "verify/verify_rank.h"

namespace tessera::testing {
namespace {

constexpr int64_t kTimeoutMs = 4000;
constexpr int kNumSteps = 2;

/// Tokens that differ by rank, step, micro-batch and place.
std::vector<MicroBatch> batches_of(const Job& job, int data_rank, int step) {
  const int64_t vocab = job.model.parameters[0].dims[0].extent;
  std::vector<MicroBatch> batches;
  for (uint32_t mb = 0; mb < job.step_config.num_micro_batches; ++mb) {
    MicroBatch& batch = batches.emplace_back();
    for (const int input : job.model.inputs()) {
      std::vector<int32_t> tokens;
      for (uint64_t i = 0; i < job.model.values[static_cast<size_t>(input)].num_elements; ++i)
        tokens.push_back(static_cast<int32_t>((7 * i + 31 * mb + 13u * static_cast<uint32_t>(data_rank) +
                                               5u * static_cast<uint32_t>(step) + 3u * static_cast<uint32_t>(input)) %
                                              static_cast<uint64_t>(vocab)));
      batch.emplace_back(std::move(tokens));
    }
  }
  return batches;
}

}  // namespace

struct MutationJob::RankBits {
  std::vector<std::byte> bytes;
  std::string failure;

  void add(const void* data, size_t num_bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), begin, begin + num_bytes);
  }
};

MutationJob::MutationJob(std::vector<std::string> flags, int num_ranks) : compiled_(std::move(flags), num_ranks) {}

MutationJob::~MutationJob() = default;

std::vector<int> MutationJob::representatives() const {
  std::vector<int> ranks;
  for (const auto& [rank, programs] : compiled_.programs().by_representative)
    ranks.push_back(rank);
  return ranks;
}

/// As compile.cc does once the passes have run. Throws what the host finds.
void MutationJob::replan(RankPrograms& programs, const Change& change) const {
  const auto refuse = [](const Diagnostics& diagnostics) {
    if (!diagnostics.empty()) throw Error(TSR_E_INTERNAL, diagnostics.front());
  };
  Program& step = programs.steps.front();
  change(step);
  for (Action& action : step.actions)
    action.dependencies.clear();
  DiagnosticList form;  // what deriving relies on; without dependencies everything else would be a race
  verify_tables(step, form);
  verify_actions(step, form);
  refuse(form.take());
  derive_dependencies(step);
  refuse(verify_rank(step));
  std::vector<Program*> all{&programs.init, &step};
  programs.eval.reset();
  for (Program* program : all)
    order_live_ranges(*program);
  programs.memory = plan_memory(all, kDeviceBudget, kBufferAlignment);
  refuse(verify_rank(step, &programs.memory[1]));
  refuse(verify_placement(step));
}

std::string MutationJob::refusal(int representative, const Change& change) const {
  const Diagnostics found = findings(representative, change);
  return found.empty() ? "" : found.front();
}

Diagnostics MutationJob::findings(int representative, const Change& change) const {
  try {
    JobPrograms changed = compiled_.programs();
    for (auto& [rank, programs] : changed.by_representative) {
      programs.eval.reset();
      if (rank == representative || representative == kEveryClass) replan(programs, change);
    }
    return verify_job(compiled_.input(), changed, 0);  // rules of classes too, in jobs of few actions
  } catch (const Error& error) {
    return {error.what()};
  }
}

std::string MutationJob::refusal_of_init(int representative, const Change& change) const {
  JobPrograms changed = compiled_.programs();
  change(changed.by_representative.at(representative).init);
  const Diagnostics diagnostics = verify_job(compiled_.input(), changed);
  return diagnostics.empty() ? "" : diagnostics.front();
}

std::string MutationJob::refusal_of_eval(int representative, const Change& change) const {
  JobPrograms changed = compiled_.programs();
  change(*changed.by_representative.at(representative).eval);
  const Diagnostics diagnostics = verify_job(compiled_.input(), changed);
  return diagnostics.empty() ? "" : diagnostics.front();
}

void MutationJob::run_rank(int rank, RankPrograms programs, const std::shared_ptr<KeyValueStore>& store,
                           RankBits& bits) const {
  const Job& job = compiled_.job();
  const HostServices host(compiled_.log(), store);
  RankSetup setup;
  setup.device = {job.plugins.device.device(), job.options.device.values(), 0, 1, host.of(job.plugins.device)};
  setup.device_memory_is_host = true;
  if (job.plugins.communicator) {
    setup.communicators.api = job.plugins.communicator->communicator();
    setup.communicators.host = host.of(*job.plugins.communicator);
    setup.communicators.options = job.options.communicator.values();
    setup.communicators.start_timeout_ms = setup.communicators.timeout_ms = kTimeoutMs;
  }
  setup.strategies = compiled_.strategies();
  setup.debug.check_memory = true;
  setup.debug.guard_bytes = kBufferAlignment;
  RankRuntime runtime(setup, std::move(programs));
  runtime.initialize(InitialValues(1, job.model.parameters));
  for (int step = 0; step < kNumSteps; ++step) {
    const int data_rank = job.mesh.data_rank(job.mesh.coordinates(rank));
    const StepResult result = runtime.run_step(static_cast<uint64_t>(step), 1e-2, 1, batches_of(job, data_rank, step));
    bits.add(&result.loss_sum, sizeof result.loss_sum);
    bits.add(&result.grad_norm, sizeof result.grad_norm);
  }
  const int64_t num_updates = runtime.optimizer_step();
  bits.add(&num_updates, sizeof num_updates);
  for (const Buffer& buffer : runtime.programs().steps.front().buffers) {
    if (!buffer.persistent || (buffer.kind != TSR_BUFFER_HOME && buffer.kind != TSR_BUFFER_OPTIMIZER)) continue;
    std::vector<std::byte> state(buffer.num_bytes());
    runtime.read_state(buffer, 0, state);
    bits.add(state.data(), state.size());
  }
}

std::vector<std::byte> MutationJob::run(int representative, const Change& change) const {
  const int num_ranks = compiled_.job().mesh.num_ranks();
  for (int rank = static_cast<int>(own_.size()); rank < num_ranks; ++rank)
    own_.push_back(compile_rank(compiled_.input(), compiled_.job().mesh.coordinates(rank)));
  std::vector<RankPrograms> programs = own_;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const bool is_changed =
        representative == kEveryClass || compiled_.programs().classes.representative(rank) == representative;
    replan(
        programs[static_cast<size_t>(rank)], is_changed ? change : [](Program&) {});
  }
  const auto store = std::make_shared<MemoryStore>();
  std::vector<RankBits> bits(static_cast<size_t>(num_ranks));
  const auto run_one = [&](size_t rank) {
    try {
      run_rank(static_cast<int>(rank), std::move(programs[rank]), store, bits[rank]);
    } catch (const std::exception& error) {
      bits[rank].failure = error.what();
      store->close(error.what());
    }
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < bits.size(); ++rank)
    threads.emplace_back(run_one, rank);
  for (std::thread& thread : threads)
    thread.join();
  std::vector<std::byte> all;
  for (const RankBits& rank : bits) {
    if (!rank.failure.empty()) throw Error(TSR_E_INTERNAL, rank.failure);
    all.insert(all.end(), rank.bytes.begin(), rank.bytes.end());
  }
  return all;
}

}  // namespace tessera::testing
