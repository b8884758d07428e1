// Loads the plugins of --device, --comm, --strategy and --offload and resolves their options, once and before any work:
// mistakes are reported early, and all later users of a plugin get the same options.
//
// On one rank neither a communicator nor the default strategy is loaded. Their options are still checked against what
// two ranks would load, so that a command line for many ranks works on one (decision 0024); that they have no effect is
// logged.

#include "job/job_plugins.h"

#include <algorithm>

#include "base/concat.h"
#include "config/usage_error.h"
#include "job/choose_communicator.h"
#include "plugins/loader.h"

namespace tessera::host {
namespace {

bool is_one_rank(const std::vector<MeshAxis>& axes) {
  return std::ranges::all_of(axes, [](const MeshAxis& axis) { return axis.num_ranks == 1; });
}

/// Plugins that a run with the same flags on more ranks would load, and this run of one rank does not.
std::vector<LoadedPlugin> left_out_plugins(const JobPlugins& plugins, const TrainConfig& config, const Log& log) {
  const auto folders = plugin_folders(config.plugin_dirs);
  std::vector<LoadedPlugin> left_out;
  if (!plugins.communicator)
    left_out.push_back(choose_communicator(config.comm, plugins.device, false, plugins.cpu, folders, log).plugin);
  if (config.strategies.empty()) left_out.push_back(load_plugin(PluginKind::strategy, kDefaultStrategy, folders, log));
  return left_out;
}

/// Refuses flags that no plugin has, or two.
void check_flags(const JobPlugins& plugins, const TrainConfig& config, const std::vector<MeshAxis>& axes,
                 const std::vector<PluginFlag>& flags, const Log& log) {
  std::vector<PluginUse> uses = uses_of(plugins, axes);
  const auto is_known = [&](const PluginFlag& flag) {
    return std::ranges::any_of(uses, [&](const PluginUse& use) { return is_option_of(flag, use); });
  };
  if (std::ranges::all_of(flags, is_known)) return check_flag_names(flags, uses);
  std::vector<LoadedPlugin> left_out;
  if (is_one_rank(axes)) left_out = left_out_plugins(plugins, config, log);
  for (const LoadedPlugin& plugin : left_out)
    uses.push_back({&plugin, plugin.kind == PluginKind::strategy ? axes[0].name : ""});
  check_flag_names(flags, uses);
  const size_t num_own = uses.size() - left_out.size();
  for (size_t i = num_own; i < uses.size(); ++i)
    PluginOptions(*uses[i].plugin, uses[i].axis, flags);
  uses.resize(num_own);
  for (const PluginFlag& flag : flags)
    if (!is_known(flag)) log.info("--", flag.name, " has no effect on one rank");
}

std::vector<LoadedPlugin> load_policies(const TrainConfig& config, const std::vector<std::filesystem::path>& folders,
                                        const Log& log) {
  std::vector<LoadedPlugin> policies;
  for (const std::string& given : config.offload) {
    LoadedPlugin policy = load_plugin(PluginKind::offload, given, folders, log);
    // Two paths may lead to one name, after which options are named.
    const auto same = std::ranges::find(policies, policy.name, &LoadedPlugin::name);
    if (same != policies.end())
      throw UsageError(concat("--offload names the policy ", policy.name, " twice: ", same->path, " and ", policy.path,
                              "; name each once"));
    policies.push_back(std::move(policy));
  }
  return policies;
}

}  // namespace

JobPlugins load_plugins(const TrainConfig& config, const std::vector<MeshAxis>& axes,
                        const std::vector<PluginFlag>& flags, const Log& log) {
  const auto folders = plugin_folders(config.plugin_dirs);
  // The default device is the CPU, which is always loaded: it provides host memory and streams beside another device.
  JobPlugins plugins{load_plugin(PluginKind::device, config.device, folders, log), {}, {}, {}, {}, {}};
  plugins.cpu =
      config.device == kDefaultDevice ? plugins.device : load_plugin(PluginKind::device, kDefaultDevice, folders, log);
  const bool is_named = config.comm != kAutoCommunicator && config.comm != kDefaultCommunicator;
  if (!is_one_rank(axes) || is_named) {
    const bool is_shared = ranks_may_share(plugins.device, PluginOptions(plugins.device, "", flags));
    auto chosen = choose_communicator(config.comm, plugins.device, is_shared, plugins.cpu, folders, log);
    plugins.communicator = std::move(chosen.plugin);
    plugins.why_communicator = std::move(chosen.reason);
  }
  for (const MeshAxis& axis : axes)
    plugins.strategies.push_back(axis.strategy.empty()
                                     ? std::nullopt
                                     : std::optional(load_plugin(PluginKind::strategy, axis.strategy, folders, log)));
  plugins.offload = load_policies(config, folders, log);
  return plugins;
}

std::vector<PluginUse> uses_of(const JobPlugins& plugins, const std::vector<MeshAxis>& axes) {
  std::vector<PluginUse> uses{{&plugins.device, ""}};
  if (plugins.cpu.path != plugins.device.path) uses.push_back({&plugins.cpu, ""});
  if (plugins.communicator) uses.push_back({&*plugins.communicator, ""});
  for (size_t i = 0; i < axes.size(); ++i)
    if (plugins.strategies[i]) uses.push_back({&*plugins.strategies[i], axes[i].name});
  for (const LoadedPlugin& policy : plugins.offload)
    uses.push_back({&policy, ""});
  return uses;
}

JobOptions resolve_options(const JobPlugins& plugins, const TrainConfig& config, const std::vector<MeshAxis>& axes,
                           const std::vector<PluginFlag>& flags, const Log& log) {
  check_flags(plugins, config, axes, flags, log);
  const auto of = [&](const std::optional<LoadedPlugin>& plugin, const std::string& axis) {
    return plugin ? PluginOptions(*plugin, axis, flags) : PluginOptions();
  };
  JobOptions options{of(plugins.device, ""), of(plugins.cpu, ""), of(plugins.communicator, ""), {}, {}};
  for (size_t i = 0; i < axes.size(); ++i)
    options.strategies.push_back(of(plugins.strategies[i], axes[i].name));
  for (const LoadedPlugin& policy : plugins.offload)
    options.offload.push_back(of(policy, ""));
  return options;
}

}  // namespace tessera::host
