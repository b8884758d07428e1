// Plans compile a job without starting it: for `plan`, for the launcher before it starts ranks, and for the search for
// flags that fit.

#include "plan/job_plan.h"

#include "config/usage_error.h"

#include <algorithm>

namespace tessera::host {

ReportedProgram largest_program(const RankPrograms& programs, uint32_t memory) {
  const auto all = programs.all();
  const auto arena = [&](size_t i) {
    const auto use = programs.memory[i].use.find(memory);
    return use == programs.memory[i].use.end() ? 0 : use->second.arena_bytes;
  };
  // all() begins with init; among equal arenas the first step is shown.
  size_t largest = 1;
  for (size_t i = 0; i < all.size(); ++i)
    if (arena(i) > arena(largest)) largest = i;
  return {all[largest], memory_report(*all[largest], programs.memory[largest], memory)};
}

JobPlan::JobPlan(Job job, const Log& log)
    : job_(std::move(job)),
      host_(log),
      strategies_(as_usage([this] { return JobStrategies(job_, host_); })),
      policies_(as_usage([this] { return JobPolicies(job_, host_); })),
      input_(compile_input(job_, strategies_.all(), policies_.all(), log)),
      programs_(as_usage([this] { return compile_job(input_); })) {}

int largest_rank(const JobPrograms& programs, uint32_t memory) {
  const auto arena = [&](const auto& entry) { return entry.second.arena_bytes(memory); };
  return std::ranges::max_element(programs.by_representative, {}, arena)->first;
}

}  // namespace tessera::host
