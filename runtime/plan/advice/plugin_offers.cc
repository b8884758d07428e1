// Plugins are asked what they are: a strategy what it splits, a policy which options it has. The options `to` and
// `fraction` are those that policies have in common (tessera/offload.hpp).

#include "plan/advice/plugin_offers.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/concat.h"
#include "plugins/loader.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// The installed plugins of a kind that the job does not use, by name. The user did not name these files, so one that
/// cannot be loaded is skipped without an error.
std::vector<LoadedPlugin> installed(const Job& job, PluginKind kind) {
  std::vector<LoadedPlugin> plugins;
  const Log quiet(LogLevel::off);
  const auto is_used = [&](const std::string& name) {
    return std::ranges::any_of(job.plugins.strategies, [&](const auto& p) { return p && p->name == name; }) ||
           std::ranges::count(job.plugins.offload, name, &LoadedPlugin::name) > 0;
  };
  for (const PluginCandidate& file : list_plugins(plugin_folders(job.config.plugin_dirs))) {
    if (file.kind != kind || is_used(file.name)) continue;
    try {
      plugins.push_back(load_plugin(file.path, quiet));
    } catch (const Error&) {
      continue;
    }
  }
  return plugins;
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

/// The job's mesh with another axis, the innermost.
Change with_axis(const Job& job, const std::string& axis, int num_ranks, const std::string& strategy) {
  if (job.mesh.num_ranks() == 1) return {{"nproc", std::to_string(num_ranks)}, {"strategy", strategy}};
  std::string mesh, strategies;
  for (const MeshAxis& own : job.axes) {
    mesh += concat(own.name, "=", own.num_ranks, ",");
    if (!own.strategy.empty()) strategies += concat(own.name, "=", own.strategy, ",");
  }
  return {{"mesh", concat(mesh, axis, "=", num_ranks)}, {"strategy", concat(strategies, axis, "=", strategy)}};
}

bool offers_files(const LoadedPlugin& policy) {
  const auto to = std::ranges::find(policy.options, "to", &PluginOption::name);
  return to != policy.options.end() && std::ranges::count(to->choices, "file") > 0;
}

/// If the job names no folder: one that every Linux has, on disk rather than in memory as /tmp may be.
constexpr const char* kFolder = "/var/tmp";

Change to_files(const Job& job, const LoadedPlugin& policy) {
  Change change = {{policy.name + ".to", "file"}};
  if (job.config.offload_dirs.empty()) change.push_back({"offload-dir", kFolder});
  return change;
}

const tsr_option_value* find_value(const PluginOptions& options, std::string_view name) {
  const auto values = options.values();
  const auto value = std::ranges::find(values, name, [](const tsr_option_value& v) { return view(v.name); });
  return value == values.end() ? nullptr : &*value;
}

}  // namespace

std::vector<Change> sharding_strategies(const Job& job) {
  std::vector<Change> changes;
  for (const LoadedPlugin& plugin : installed(job, PluginKind::strategy))
    if (plugin.strategy()->splits == TSR_SPLITS_BATCH && (plugin.strategy()->flags & TSR_STRATEGY_SHARDS_HOMES) != 0)
      changes.push_back(with_strategy(job, plugin.name));
  return changes;
}

/// One strategy is enough to offer; by 2, 4 and 8 ranks, of which the first that fits is taken.
Family split_tensors(const Job& job) {
  if (std::ranges::count(job.mesh.axes(), TSR_SPLITS_TENSORS, &Axis::splits) > 0) return {};
  Family family;
  for (const LoadedPlugin& plugin : installed(job, PluginKind::strategy)) {
    if (plugin.strategy()->splits != TSR_SPLITS_TENSORS) continue;
    for (const int num_ranks : {2, 4, 8})
      family.push_back(with_axis(job, "tp", num_ranks, plugin.name));
    break;
  }
  return family;
}

std::vector<Family> more_offload(const Job& job) {
  std::string own;
  for (const std::string& policy : job.config.offload)
    own += policy + ",";
  std::vector<Family> families;
  for (const LoadedPlugin& policy : installed(job, PluginKind::offload)) {
    const Change change = {{"offload", own + policy.name}};
    families.push_back({change});
    if (!offers_files(policy)) continue;
    if (!job.config.offload_dirs.empty()) families.push_back({change + to_files(job, policy)});
    if (job.config.offload_dirs.empty() && job.config.host_memory > 0)
      families.back().push_back(change + to_files(job, policy));
  }
  return families;
}

std::vector<Family> smaller_offload(const Job& job) {
  std::vector<Family> families;
  for (size_t i = 0; i < job.plugins.offload.size(); ++i) {
    const LoadedPlugin& policy = job.plugins.offload[i];
    if (const auto* fraction = find_value(job.options.offload[i], "fraction")) {
      Family& family = families.emplace_back();
      // Downwards: the first that fits changes the least.
      for (const char* smaller : {"0.9", "0.8", "0.7", "0.6", "0.5", "0.4", "0.3", "0.2", "0.1"})
        if (std::stod(smaller) < fraction->d) family.push_back({{policy.name + ".fraction", smaller}});
    }
    const auto* to = find_value(job.options.offload[i], "to");
    if (to && view(to->s) != "file" && offers_files(policy)) families.push_back({to_files(job, policy)});
  }
  return families;
}

}  // namespace tessera::host
