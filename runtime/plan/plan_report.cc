// Collects the report of one rank. The other value of --reduce-every is planned as well, because its trade-off
// (gradient memory for bytes on the wire) cannot be estimated without a program.

#include "plan/plan_report.h"

#include <algorithm>

#include "base/concat.h"
#include "checkpoint/held_state.h"
#include "config/text_values.h"
#include "machine/cgroup.h"
#include "plan/format.h"
#include "tessera/error.hpp"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

constexpr size_t kMaxEstimatedActions = 2'000'000;  // of all classes of ranks; they take about two seconds

uint64_t sent_in(const Program& program) {
  uint64_t num_bytes = 0;
  for (const Traffic& traffic : traffic_of(program))
    num_bytes += traffic.sent_bytes;
  return num_bytes;
}

/// The same job with the other value of --reduce-every; none when a strategy refuses it.
std::optional<ReduceEveryCost> reduce_every_cost(const JobPlan& planned, int rank) {
  const TrainConfig& config = planned.job().config;
  if (config.grad_accum == 1 || planned.job().mesh.num_data_ranks() == 1) return std::nullopt;
  const bool every_step = config.reduce_every == ReduceEvery::step;
  ParsedFlags flags;
  flags.config = config;
  flags.plugin_flags = planned.job().plugin_flags;
  flags.config.reduce_every = every_step ? ReduceEvery::micro_batch : ReduceEvery::step;
  const auto gradients = [rank](const JobPrograms& programs) {
    const RankPrograms& own = programs.of(rank);
    return memory_report(own.first(), own.first_memory()).most[MemoryClass::gradients];
  };
  const auto sent = [rank](const JobPrograms& programs) { return sent_in(programs.of(rank).steps[0]); };
  try {
    const Log quiet(LogLevel::off);
    const JobPlan other(make_job(flags, planned.job().mesh.num_ranks(), quiet), quiet);
    const JobPrograms& step = every_step ? planned.programs() : other.programs();
    const JobPrograms& micro_batch = every_step ? other.programs() : planned.programs();
    return ReduceEveryCost{gradients(step), sent(step), gradients(micro_batch), sent(micro_batch)};
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The step program that sends the most: strategies such as local SGD alternate between several.
const Program& busiest_step(const RankPrograms& programs) {
  return *std::ranges::max_element(programs.steps, {}, sent_in);
}

}  // namespace

PlanReport plan_report(const JobPlan& planned, int rank) {
  PlanReport report = plan_report(planned.job(), planned.programs(), rank, planned.log());
  report.reduce_every_cost = reduce_every_cost(planned, report.rank);
  return report;
}

PlanReport plan_report(const Job& job, const JobPrograms& all, int rank, const Log& log) {
  const int largest = largest_rank(all);
  PlanReport report;
  report.rank = rank < 0 ? largest : rank;
  const RankPrograms& own = all.of(report.rank);
  report.num_ranks = job.mesh.num_ranks();
  report.device = job.plugins.device.name;
  report.arena_bytes = own.arena_bytes(TSR_MEMORY_DEVICE);
  report.host_arena_bytes = own.arena_bytes(TSR_MEMORY_HOST);
  if (job.config.save_async) report.save_copy_bytes = owned_bytes(own.first());
  report.is_largest = report.arena_bytes == all.of(largest).arena_bytes(TSR_MEMORY_DEVICE);
  report.same_ranks = all.classes.members().at(all.classes.representative(report.rank));
  report.items = job.items();
  report.tokens_per_step = job.tokens_per_step();
  const auto programs = own.all();
  for (size_t i = 0; i < programs.size(); ++i) {
    const auto use = own.memory[i].use.find(TSR_MEMORY_DEVICE);
    report.programs.push_back({program_name(*programs[i]), programs[i]->actions.size(),
                               use == own.memory[i].use.end() ? 0 : use->second.arena_bytes});
  }
  ReportedProgram peak = largest_program(own);
  report.peak_program = program_name(*peak.program);
  if (!peak.program->actions.empty())
    report.peak_action = action_text(*peak.program, report.rank, peak.memory.peak_action);
  report.phases = phases_of(*peak.program);
  report.memory = std::move(peak.memory);
  report.places = places_of(own);
  for (const LoadedPlugin& policy : job.plugins.offload)
    report.policies.push_back(policy.name);
  report.chunk_bytes = job.config.offload_chunk;
  report.moved = moved_in_step(own);
  const Program& busiest = busiest_step(own);
  report.num_step_programs = own.steps.size();
  report.traffic_program = program_name(busiest);
  report.traffic = traffic_of(busiest);
  report.gathers = gathers_of(busiest);
  report.reduce_every = job.step_config.reduce_every;
  report.balance = balance_of(all);
  const RankPrograms& most = all.of(largest);
  const uint64_t copy_bytes = job.config.save_async ? owned_bytes(most.first()) : 0;
  report.verdict = {most.arena_bytes(TSR_MEMORY_DEVICE), job.config.device_memory,
                    job.computes_on_host() ? usable_memory() : 0, most.arena_bytes(TSR_MEMORY_HOST) + copy_bytes,
                    copy_bytes};
  // Last: where the job does not fit, this plans other jobs and takes seconds.
  report.shortfall = find_shortfall(job, all, log);
  return report;
}

void predict_time(PlanReport& report, const JobPlan& planned, const std::string& rates_files) {
  if (rates_files.empty()) {
    const JobPrograms& programs = planned.programs();
    // By the rank that is shown: those of other classes have about as many.
    const size_t num_actions = programs.of(report.rank).steps[0].actions.size();
    report.is_long_to_estimate = num_actions * programs.classes.members().size() > kMaxEstimatedActions;
    if (report.is_long_to_estimate) return;
    const StepCost cost(planned);
    report.estimate = {cost.step_seconds(planned), cost.source(), cost.caveat()};
    return;
  }
  const StepCost cost(planned, rates_files);
  report.rates = {rates_files, cost.rates()->measured, cost.rates()->num_threads};
  report.prediction = predict(planned, report.rank, cost);
  report.estimate = {report.prediction->step_seconds, cost.source(), cost.caveat()};
}

}  // namespace tessera::host
