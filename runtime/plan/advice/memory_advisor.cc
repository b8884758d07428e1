// Finds flags that make a job fit. Candidates are tried, not estimated: each is planned like a job, so what is offered
// does fit, with its exact arena. Of each family the first that fits is offered, and nothing that only adds to a change
// that already fits.
//
// Cost: one plan for each candidate, about 20 ms for each class of ranks. Candidates with many classes are left out.

#include "plan/advice/memory_advisor.h"

#include <algorithm>
#include <iterator>

#include "base/concat.h"
#include "base/progress.h"
#include "plan/advice/families.h"
#include "plan/format.h"
#include "plan/job_plan.h"

namespace tessera::host {
namespace {

constexpr std::string_view flag_of(uint32_t memory) {
  return memory == TSR_MEMORY_HOST ? "--host-memory" : "--device-memory";
}

/// 0: not limited.
uint64_t limit_of(const Job& job, uint32_t memory) {
  return memory == TSR_MEMORY_HOST ? job.config.host_memory : job.config.device_memory;
}

bool fits(const Job& job, const NeededMemory& needed) {
  return std::ranges::all_of(std::array{TSR_MEMORY_DEVICE, TSR_MEMORY_HOST}, [&](uint32_t memory) {
    return limit_of(job, memory) == 0 || needed.of(memory) <= limit_of(job, memory);
  });
}

void try_changes(const Job& job, const NeededMemory& needed, MemoryShortfall& shortfall, const Log& log) {
  Progress progress(log,
                    concat("the run does not fit ", flag_of(shortfall.memory), "; planning changes of flags that may"));
  std::vector<Change> fitting;
  std::vector<Family> families = families_for(job, shortfall.memory, needed);
  if (!shortfall.unit.empty()) std::ranges::move(split_and_offload(job), std::back_inserter(families));
  for (size_t i = 0; i < families.size(); ++i)
    for (const Change& change : families[i]) {
      progress.at(i, families.size());
      const auto is_smaller = [&](const Change& other) { return adds_to(change, other); };
      if (change.empty()) continue;
      if (std::ranges::any_of(fitting, is_smaller)) break;  // larger ones of the family add to it too
      const auto then = try_change(job, change);
      if (!then) continue;
      const Trial trial{text_of(change), then->needed.of(shortfall.memory), then->command};
      if (trial.arena_bytes < shortfall.smallest.arena_bytes) shortfall.smallest = trial;
      if (!fits(job, then->needed)) continue;
      fitting.push_back(change);
      shortfall.fitting.push_back(trial);
      break;
    }
}

/// A unit's values are gathered or cast, used and differentiated as a whole: these and the gradient are in device
/// memory together whatever else leaves it.
void find_unit_that_does_not_fit(const Job& job, const Model& model, MemoryShortfall& shortfall) {
  const auto trained_elements = [&](const Unit& unit) {
    uint64_t num_elements = 0;
    for (const int p : unit.parameters)
      if (model.parameters[p].trainable) num_elements += model.parameters[p].num_elements;
    return num_elements;
  };
  const auto& units = model.units;
  const auto largest = std::ranges::max_element(units, {}, trained_elements);
  if (largest == units.end()) return;
  const uint64_t num_bytes = trained_elements(*largest) * (TSR_NUM_BYTES(job.step_config.dtype, 1) + sizeof(float));
  if (num_bytes <= shortfall.limit_bytes) return;
  shortfall.unit = largest->name;
  shortfall.unit_bytes = num_bytes;
}

/// In bytes where a size above the limit would be rounded to the same text.
std::string size_text(uint64_t num_bytes, const MemoryShortfall& shortfall) {
  const std::string limit = human_bytes(shortfall.limit_bytes);
  const bool is_close =
      limit == human_bytes(shortfall.arena_bytes) || limit == human_bytes(shortfall.smallest.arena_bytes);
  return is_close ? concat(num_bytes, " bytes") : human_bytes(num_bytes);
}

/// What follows the sentence that it does not fit.
std::string offers_of(const MemoryShortfall& shortfall) {
  const auto size = [&](uint64_t num_bytes) { return size_text(num_bytes, shortfall); };
  std::string text;
  if (!shortfall.unit.empty())
    text += concat("; ", shortfall.unit, " and its gradient alone take ", size(shortfall.unit_bytes),
                   ", so its tensors must be split over more ranks");
  if (!shortfall.fitting.empty()) {
    text += "; what would fit:";
    for (const Trial& trial : shortfall.fitting)
      text += concat("\n  ", trial.flags, ": ", size(trial.arena_bytes),
                     trial.command.empty() ? "" : "\n    " + trial.command);
  } else if (shortfall.smallest.flags.empty()) {
    text += "; none of the changes of flags that were tried needs less";
  } else {
    text += concat("; none of the changes of flags that were tried fits; the smallest needs ",
                   size(shortfall.smallest.arena_bytes), " with ", shortfall.smallest.flags);
  }
  return text;
}

/// With which the job fits; empty: there is none.
std::string command_text(const MemoryShortfall& shortfall) {
  return shortfall.fitting.empty() || shortfall.fitting[0].command.empty()
             ? ""
             : concat(":\n    ", shortfall.fitting[0].command);
}

/// Where only the copy makes the job too large: --save-async is the change.
void add_copy(const Job& job, const JobPrograms& programs, MemoryShortfall& shortfall) {
  for (const auto& [rank, of_rank] : programs.by_representative) {
    const uint64_t copy = copied_bytes(job, of_rank), bytes = of_rank.arena_bytes(TSR_MEMORY_HOST) + copy;
    if (bytes <= shortfall.arena_bytes) continue;
    shortfall.rank = rank;
    shortfall.arena_bytes = bytes;
    shortfall.copy_bytes = copy;
  }
  const Change change = {{"save-async", "false"}};
  const auto then = try_change(job, change);
  if (then && fits(job, then->needed))
    shortfall.fitting.push_back({text_of(change), then->needed.of(shortfall.memory), then->command});
}

std::optional<MemoryShortfall> find_shortfall_of(uint32_t memory, const Job& job, const JobPrograms& programs,
                                                 const Log& log) {
  const NeededMemory needed = needed_memory(job, programs);
  MemoryShortfall shortfall;
  shortfall.memory = memory;
  shortfall.limit_bytes = limit_of(job, memory);
  // The common case ends here, in no time; what follows plans the job again and again.
  if (shortfall.limit_bytes == 0 || needed.of(memory) <= shortfall.limit_bytes) return std::nullopt;
  shortfall.rank = largest_rank(programs, memory);
  shortfall.arena_bytes = programs.of(shortfall.rank).arena_bytes(memory);
  if (shortfall.arena_bytes <= shortfall.limit_bytes) {
    add_copy(job, programs, shortfall);
    return shortfall;
  }
  shortfall.arena_bytes = needed.of(memory);  // with the copy, as those of the changes that are tried
  const RankPrograms& largest = programs.of(shortfall.rank);
  shortfall.peak = largest_program(largest, memory).memory.peak;
  shortfall.smallest.arena_bytes = shortfall.arena_bytes;
  if (memory == TSR_MEMORY_DEVICE) find_unit_that_does_not_fit(job, *largest.model, shortfall);
  try_changes(job, needed, shortfall, log);
  return shortfall;
}

}  // namespace

std::optional<MemoryShortfall> find_shortfall(const Job& job, const JobPrograms& programs, const Log& log) {
  for (const uint32_t memory : {TSR_MEMORY_DEVICE, TSR_MEMORY_HOST})
    if (auto shortfall = find_shortfall_of(memory, job, programs, log)) return shortfall;
  return std::nullopt;
}

std::string shortfall_text(const MemoryShortfall& shortfall) {
  const auto size = [&](uint64_t num_bytes) { return size_text(num_bytes, shortfall); };
  const std::string text = concat("the run does not fit ", flag_of(shortfall.memory), " ", size(shortfall.limit_bytes),
                                  ": rank ", shortfall.rank, " needs ", size(shortfall.arena_bytes));
  if (shortfall.copy_bytes)
    return concat(text, ", ", human_bytes(shortfall.copy_bytes), " of it for the copy of its state that --save-async ",
                  "writes; raise --host-memory, or leave --save-async out", command_text(shortfall));
  return concat(text, " (", class_list(shortfall.peak), ")", offers_of(shortfall));
}

std::string offers_text(const Job& job, const Log& log) {
  if (job.config.device_memory == 0) return "";  // it refuses for another reason
  MemoryShortfall shortfall;
  shortfall.limit_bytes = job.config.device_memory;
  shortfall.arena_bytes = shortfall.smallest.arena_bytes = UINT64_MAX;  // not known: it cannot be planned
  if (std::ranges::count(job.mesh.axes(), TSR_SPLITS_TENSORS, &Axis::splits) == 0)
    find_unit_that_does_not_fit(job, job.model, shortfall);
  try_changes(job, {UINT64_MAX, UINT64_MAX}, shortfall, log);
  return offers_of(shortfall);
}

}  // namespace tessera::host
