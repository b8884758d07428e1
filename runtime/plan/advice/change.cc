// A change is planned like any job, so its numbers are those of the run.
// It goes by way of a command line, which is then parsed: so it meets every check of flags that a user would meet, and
// the command that is offered is the one that was planned.

#include "plan/advice/change.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/concat.h"
#include "checkpoint/held_state.h"
#include "config/flag_table.h"
#include "config/usage_error.h"
#include "plan/advice/command_line.h"
#include "plan/job_plan.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// Of ranks: at about 20 ms each (memory_advisor.cc), a change takes some 1.3 s at most.
constexpr size_t kMaxClasses = 64;

void set(ParsedFlags& flags, const Setting& setting) {
  if (setting.is_option()) {
    std::erase_if(flags.plugin_flags, [&](const PluginFlag& flag) { return flag.name == setting.flag; });
    flags.plugin_flags.push_back({setting.flag, setting.value, true});
    return;
  }
  const auto flag = std::ranges::find(train_flags(), setting.flag, &Flag::name);
  if (flag == train_flags().end()) throw UsageError("unknown flag --" + setting.flag);
  // --nproc and --mesh exclude each other.
  if (setting.flag == "nproc") flags.config.mesh.clear();
  if (setting.flag == "mesh") flags.config.nproc = 0;
  // --host-memory is refused where nothing needs any.
  if (setting.flag == "save-async" && flags.config.offload.empty()) flags.config.host_memory = 0;
  flag->read(flags.config, setting.value);
}

/// Removes the options of the batch axis's strategy if another one replaces it: they would be refused.
void drop_strategy_options(ParsedFlags& flags, const Job& job) {
  const int index = batch_axis(job);
  if (index < 0) return;
  const MeshAxis& axis = job.axes[static_cast<size_t>(index)];
  const auto is_kept = [&](const StrategyFlag& flag) {
    return flag.plugin == axis.strategy && (flag.axis.empty() || flag.axis == axis.name);
  };
  if (axis.strategy.empty() || std::ranges::any_of(flags.config.strategies, is_kept)) return;
  const bool is_used_elsewhere = std::ranges::count(job.axes, axis.strategy, &MeshAxis::strategy) > 1;
  std::erase_if(flags.plugin_flags, [&](const PluginFlag& flag) {
    return flag.name.starts_with(axis.name + "." + axis.strategy + ".") ||
           (!is_used_elsewhere && flag.name.starts_with(axis.strategy + "."));
  });
}

bool is_default(const PluginFlag& flag, std::span<const PluginUse> uses) {
  const std::string_view name = std::string_view(flag.name).substr(flag.name.rfind('.') + 1);
  return std::ranges::any_of(uses, [&](const PluginUse& use) {
    const auto option = std::ranges::find(use.plugin->options, name, &PluginOption::name);
    return is_option_of(flag, use) && option->default_value == flag.value;
  });
}

/// A resolved configuration has every option. Those at their defaults make a command line long, and an empty value
/// cannot be given on it.
void drop_defaults_of_file(ParsedFlags& flags, const Job& job) {
  const auto uses = uses_of(job.plugins, job.axes);
  const std::vector<PluginFlag> all = flags.plugin_flags;
  // That of one axis, at its default, overrides that of all axes.
  const auto overrides_another = [&](const PluginFlag& flag) {
    return std::ranges::any_of(all, [&](const PluginFlag& one) { return flag.name.ends_with("." + one.name); });
  };
  std::erase_if(flags.plugin_flags, [&](const PluginFlag& flag) {
    return !flag.file.empty() && (flag.value.empty() || (is_default(flag, uses) && !overrides_another(flag)));
  });
}

bool is_quick_to_plan(const Job& job, const Log& log) {
  const HostServices host(log);
  const JobStrategies strategies(job, host);
  return RankClasses(job.mesh, strategies.all()).members().size() <= kMaxClasses;
}

}  // namespace

Change operator+(Change a, const Change& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string text_of(const Change& change) {
  const auto is_switch = [](const Setting& setting) {
    const auto flag = std::ranges::find(train_flags(), setting.flag, &Flag::name);
    return flag != train_flags().end() && flag->value.empty();
  };
  std::string text;
  for (const Setting& setting : change)
    text += concat(text.empty() ? "" : " ", "--", setting.flag, setting.is_option() || is_switch(setting) ? "=" : " ",
                   setting.value);
  return text;
}

bool adds_to(const Change& change, const Change& smaller) {
  const auto is_in = [](const Change& c) {
    return [&c](const Setting& setting) { return std::ranges::count(c, setting) > 0; };
  };
  const bool has_policies = std::ranges::count(smaller, "offload", &Setting::flag) > 0;
  const bool sets_them_otherwise = std::ranges::any_of(
      change, [&](const Setting& setting) { return setting.is_option() && !is_in(smaller)(setting); });
  return std::ranges::all_of(smaller, is_in(change)) && !(has_policies && sets_them_otherwise);
}

uint64_t copied_bytes(const Job& job, const RankPrograms& programs) {
  return job.config.save_async ? owned_bytes(programs.first()) : 0;
}

NeededMemory needed_memory(const Job& job, const JobPrograms& programs) {
  NeededMemory needed;
  for (const auto& [representative, of_rank] : programs.by_representative) {
    needed.device_bytes = std::max(needed.device_bytes, of_rank.arena_bytes(TSR_MEMORY_DEVICE));
    needed.host_bytes = std::max(needed.host_bytes, of_rank.arena_bytes(TSR_MEMORY_HOST) + copied_bytes(job, of_rank));
  }
  return needed;
}

std::optional<TriedChange> try_change(const Job& job, const Change& change) {
  try {
    ParsedFlags flags;
    flags.config = job.config;
    flags.plugin_flags = job.plugin_flags;
    drop_defaults_of_file(flags, job);
    flags.config.nproc = job.config.mesh.empty() ? job.mesh.num_ranks() : 0;
    for (const Setting& setting : change)
      set(flags, setting);
    if (std::ranges::count(change, "strategy", &Setting::flag)) drop_strategy_options(flags, job);
    const Log quiet(LogLevel::off);
    const std::string command = job.trains ? command_of(flags) : "";
    flags = parse_flags(FlagSet::plan, words_of(flags));
    Job changed = make_job(flags, requested_world(flags.config), quiet);
    changed.evaluates = job.evaluates;
    if (!is_quick_to_plan(changed, quiet)) return std::nullopt;
    const JobPlan planned(std::move(changed), quiet);
    return TriedChange{needed_memory(planned.job(), planned.programs()), command};
  } catch (const Error&) {  // a flag, a plugin or a check refuses it
    return std::nullopt;
  }
}

int batch_axis(const Job& job) {
  for (size_t i = job.axes.size(); i-- > 0;)
    if (job.mesh.axes()[i].splits == TSR_SPLITS_BATCH) return static_cast<int>(i);
  return -1;
}

}  // namespace tessera::host
