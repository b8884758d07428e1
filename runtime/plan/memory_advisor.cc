// Finds flags that make a job fit. Candidates are tried, not estimated: each is planned like a job, so what is offered
// does fit, with its exact arena. They are ordered by what they cost the user: recompute, shard, 16 bits, smaller
// micro-batches, more ranks. Of each family the first that fits is offered, and nothing that only adds to a change that
// already fits.
//
// Cost: one plan for each candidate, about 20 ms for each class of ranks. Candidates with many classes are left out.

#include "plan/memory_advisor.h"

#include <algorithm>

#include "base/concat.h"
#include "base/progress.h"
#include "config/flag_table.h"
#include "config/usage_error.h"
#include "plan/format.h"
#include "plan/job_plan.h"
#include "plugins/loader.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr size_t kMaxClasses = 64;

struct Setting {
  std::string flag, value;
  bool operator==(const Setting&) const = default;
};
using Change = std::vector<Setting>;

Change operator+(Change a, const Change& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string text_of(const Change& change) {
  std::string text;
  for (const Setting& setting : change)
    text += concat(text.empty() ? "" : " ", "--", setting.flag, " ", setting.value);
  return text;
}

/// The axis that may get more ranks: the innermost that splits the batch; -1 when there is none.
int batch_axis(const Job& job) {
  for (size_t i = job.axes.size(); i-- > 0;)
    if (job.mesh.axes()[i].splits == TSR_SPLITS_BATCH) return static_cast<int>(i);
  return -1;
}

/// Sets the strategy of the batch axis and keeps the others.
Change with_strategy(const Job& job, const std::string& strategy) {
  if (job.axes.size() == 1) return {{"strategy", strategy}};
  std::string strategies;
  for (size_t i = 0; i < job.axes.size(); ++i) {
    const std::string& plugin = static_cast<int>(i) == batch_axis(job) ? strategy : job.axes[i].strategy;
    if (!plugin.empty()) strategies += concat(strategies.empty() ? "" : ",", job.axes[i].name, "=", plugin);
  }
  return {{"strategy", strategies}};
}

bool shards_homes(const LoadedPlugin& plugin) {
  return plugin.kind == PluginKind::strategy && plugin.strategy()->splits == TSR_SPLITS_BATCH &&
         (plugin.strategy()->flags & TSR_STRATEGY_SHARDS_HOMES) != 0;
}

/// The names of installed strategies that declare that they shard parameters, without those of the job.
std::vector<std::string> sharding_strategies(const Job& job) {
  std::vector<std::string> names;
  const Log quiet(LogLevel::off);
  for (const PluginCandidate& file : list_plugins(plugin_folders(job.config.plugin_dirs))) {
    const auto is_it = [&](const auto& plugin) { return plugin && plugin->name == file.name; };
    if (file.kind != PluginKind::strategy || std::ranges::any_of(job.plugins.strategies, is_it)) continue;
    try {
      if (shards_homes(load_plugin(file.path, quiet))) names.push_back(file.name);
    } catch (const Error&) {
      continue;  // the user did not name this file, so it is skipped without an error
    }
  }
  return names;
}

Change more_ranks(const Job& job, int factor) {
  const int axis = batch_axis(job);
  if (axis < 0) return {};
  if (job.config.mesh.empty()) return {{"nproc", std::to_string(job.mesh.num_ranks() * factor)}};
  std::string mesh;
  for (size_t i = 0; i < job.axes.size(); ++i) {
    const int num_ranks = job.axes[i].num_ranks * (static_cast<int>(i) == axis ? factor : 1);
    mesh += concat(mesh.empty() ? "" : ",", job.axes[i].name, "=", num_ranks);
  }
  return {{"mesh", mesh}};
}

/// Changes of one kind, in ascending size: the first that fits is offered.
using Family = std::vector<Change>;

/// The same step in smaller micro-batches.
Family smaller_batches(const Job& job) {
  Family family;
  // Halving keeps the tokens of a step, and thus the training.
  for (int64_t factor = 2; job.config.batch_size % factor == 0; factor *= 2)
    family.push_back({{"batch-size", std::to_string(job.config.batch_size / factor)},
                      {"grad-accum", std::to_string(job.config.grad_accum * factor)}});
  return family;
}

Family and_also(Family family, const Change& more) {
  for (Change& change : family)
    change = change + more;
  return family;
}

// Ordered by cost to the user.
std::vector<Family> families_for(const Job& job, const Change& sharded) {
  const Change recompute = {{"recompute", "full"}}, half = {{"dtype", "bf16"}};
  const Change one_by_one = sharded + Change{{"reduce-every", "micro-batch"}};
  const Family batches = smaller_batches(job);
  const Family ranks = {more_ranks(job, 2), more_ranks(job, 4), more_ranks(job, 8)};
  std::vector<Family> families = {{recompute},
                                  {sharded},
                                  {sharded + recompute},
                                  {half},
                                  batches,
                                  and_also(batches, recompute),
                                  and_also(batches, one_by_one),
                                  and_also(batches, one_by_one + recompute),
                                  {sharded + recompute + half},
                                  and_also(ranks, sharded),
                                  and_also(ranks, sharded + recompute)};
  if (job.config.grad_accum > 1) {
    families.push_back({one_by_one});
    families.push_back(and_also(ranks, one_by_one + recompute));
  }
  return families;
}

void set(ParsedFlags& flags, const Setting& setting) {
  const auto flag = std::ranges::find(train_flags(), setting.flag, &Flag::name);
  if (flag == train_flags().end()) throw UsageError("there is no flag --" + setting.flag);
  // --nproc and --mesh exclude each other.
  if (setting.flag == "nproc") flags.config.mesh.clear();
  if (setting.flag == "mesh") flags.config.nproc = 0;
  flag->read(flags.config, setting.value);
}

/// Removes the options of the batch axis's strategy, which another one replaces: they would be refused.
void drop_strategy_options(ParsedFlags& flags, const Job& job) {
  const MeshAxis& axis = job.axes[batch_axis(job)];
  if (axis.strategy.empty()) return;
  const bool is_used_elsewhere = std::ranges::count(job.axes, axis.strategy, &MeshAxis::strategy) > 1;
  std::erase_if(flags.plugin_flags, [&](const PluginFlag& flag) {
    return flag.name.starts_with(axis.name + "." + axis.strategy + ".") ||
           (!is_used_elsewhere && flag.name.starts_with(axis.strategy + "."));
  });
}

bool is_quick_to_plan(const Job& job, const Log& log) {
  const HostServices host(log);
  const JobStrategies strategies(job, host.table());
  return RankClasses(job.mesh, strategies.all()).members().size() <= kMaxClasses;
}

/// The arena of the rank that needs the most; nothing when a flag, a plugin or a check refuses the change, or when its
/// ranks are in too many classes to plan quickly.
std::optional<uint64_t> try_change(const Job& job, const Change& change) {
  try {
    ParsedFlags flags;
    flags.config = job.config;
    flags.plugin_flags = job.plugin_flags;
    flags.config.nproc = job.config.mesh.empty() ? job.mesh.num_ranks() : 0;
    for (const Setting& setting : change)
      set(flags, setting);
    if (std::ranges::count(change, "strategy", &Setting::flag)) drop_strategy_options(flags, job);
    const Log quiet(LogLevel::off);
    Job changed = make_job(flags, requested_world(flags.config), quiet);
    if (!is_quick_to_plan(changed, quiet)) return std::nullopt;
    const JobPlan planned(std::move(changed), quiet);
    return planned.programs().of(largest_rank(planned.programs())).arena_bytes(TSR_MEMORY_DEVICE);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The first strategy on the batch axis, by name, with which ranks need less than in the job; empty when there is none.
/// On one rank none needs less: then the first that can be planned, to be combined with more ranks.
Change shard(const Job& job, uint64_t arena_bytes) {
  const int axis = batch_axis(job);
  if (axis < 0) return {};
  for (const std::string& strategy : sharding_strategies(job)) {
    const Change change = with_strategy(job, strategy);
    const auto needed = try_change(job, change);
    if (needed && (*needed < arena_bytes || job.mesh.axes()[axis].num_ranks == 1)) return change;
  }
  return {};
}

/// Whether the change only adds to one that fits.
bool includes_one_of(const Change& change, const std::vector<Change>& fitting) {
  return std::ranges::any_of(fitting, [&](const Change& smaller) {
    return std::ranges::all_of(smaller,
                               [&](const Setting& setting) { return std::ranges::count(change, setting) > 0; });
  });
}

void try_changes(const Job& job, MemoryShortfall& shortfall, const Log& log) {
  Progress progress(log, "the run does not fit --device-memory; planning changes of flags that may");
  std::vector<Change> fitting;
  const std::vector<Family> families = families_for(job, shard(job, shortfall.arena_bytes));
  for (size_t i = 0; i < families.size(); ++i)
    for (const Change& change : families[i]) {
      progress.at(i, families.size());
      if (change.empty() || includes_one_of(change, fitting)) continue;
      const auto arena_bytes = try_change(job, change);
      if (!arena_bytes) continue;
      const Trial trial{text_of(change), *arena_bytes};
      if (trial.arena_bytes < shortfall.smallest.arena_bytes) shortfall.smallest = trial;
      if (trial.arena_bytes > shortfall.limit_bytes) continue;
      fitting.push_back(change);
      shortfall.fitting.push_back(trial);
      break;
    }
}

/// In bytes where a size above the limit would be rounded to the same text.
std::string size_text(uint64_t num_bytes, const MemoryShortfall& shortfall) {
  const std::string limit = human_bytes(shortfall.limit_bytes);
  const bool is_close =
      limit == human_bytes(shortfall.arena_bytes) || limit == human_bytes(shortfall.smallest.arena_bytes);
  return is_close ? concat(num_bytes, " bytes") : human_bytes(num_bytes);
}

}  // namespace

std::optional<MemoryShortfall> find_shortfall(const Job& job, const JobPrograms& programs, const Log& log) {
  MemoryShortfall shortfall;
  shortfall.rank = largest_rank(programs);
  shortfall.arena_bytes = programs.of(shortfall.rank).arena_bytes(TSR_MEMORY_DEVICE);
  shortfall.limit_bytes = job.config.device_memory;
  if (shortfall.limit_bytes == 0 || shortfall.arena_bytes <= shortfall.limit_bytes) return std::nullopt;
  shortfall.peak = largest_program(programs.of(shortfall.rank)).memory.peak;
  shortfall.smallest.arena_bytes = shortfall.arena_bytes;
  try_changes(job, shortfall, log);
  return shortfall;
}

std::string shortfall_text(const MemoryShortfall& shortfall) {
  const auto size = [&](uint64_t num_bytes) { return size_text(num_bytes, shortfall); };
  std::string text =
      concat("the run does not fit --device-memory ", size(shortfall.limit_bytes), ": rank ", shortfall.rank, " needs ",
             size(shortfall.arena_bytes), " (", class_list(shortfall.peak), ")");
  if (!shortfall.fitting.empty()) {
    text += "; what would fit:";
    for (const Trial& trial : shortfall.fitting)
      text += concat("\n  ", trial.flags, ": ", size(trial.arena_bytes));
  } else if (shortfall.smallest.flags.empty()) {
    text += "; none of the changes of flags that were tried needs less";
  } else {
    text += concat("; none of the changes of flags that were tried fits; the smallest needs ",
                   size(shortfall.smallest.arena_bytes), " with ", shortfall.smallest.flags);
  }
  return text;
}

}  // namespace tessera::host
