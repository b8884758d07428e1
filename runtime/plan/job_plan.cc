// A planned job is compiled and verified without being started: by `plan`, by the launcher before it starts ranks, and
// for the search for flags that fit.

#include "plan/job_plan.h"

#include <algorithm>

#include "plan/memory_advisor.h"

namespace tessera::host {

ReportedProgram largest_program(const RankPrograms& programs) {
  const auto all = programs.all();
  const auto arena = [&](size_t i) {
    const auto use = programs.memory[i].use.find(TSR_MEMORY_DEVICE);
    return use == programs.memory[i].use.end() ? 0 : use->second.arena_bytes;
  };
  // all() begins with init; of equal arenas the first step is the one to show.
  size_t largest = 1;
  for (size_t i = 0; i < all.size(); ++i)
    if (arena(i) > arena(largest)) largest = i;
  return {all[largest], memory_report(*all[largest], programs.memory[largest])};
}

JobPlan::JobPlan(Job job, const Log& log)
    : job_(std::move(job)),
      host_(log),
      strategies_(as_usage([this] { return JobStrategies(job_, host_.table()); })),
      input_(compile_input(job_, strategies_.all(), log)),
      programs_(as_usage([this] { return compile_job(input_); })) {}

void JobPlan::require_sound() const {
  if (const auto refusal = refusal_of(job_, input_, programs_)) throw *refusal;
}

std::optional<Error> refusal_of(const Job& job, const CompileInput& input, const JobPrograms& programs) {
  const Diagnostics diagnostics = verify_job(input, programs);
  if (!diagnostics.empty()) {
    std::string text = "the ranks' programs do not fit one another:";
    for (const std::string& diagnostic : diagnostics)
      text += "\n  " + diagnostic;
    return Error(TSR_E_INTERNAL, text);
  }
  // Last, as it plans other jobs when this one does not fit.
  if (const auto shortfall = find_shortfall(job, programs, input.log))
    return Error(TSR_E_RESOURCE_EXHAUSTED, shortfall_text(*shortfall));
  return std::nullopt;
}

int largest_rank(const JobPrograms& programs) {
  const auto arena = [](const auto& entry) { return entry.second.arena_bytes(TSR_MEMORY_DEVICE); };
  return std::ranges::max_element(programs.by_representative, {}, arena)->first;
}

}  // namespace tessera::host
