// Fills in what a person would otherwise look up, so that another machine runs the same job:
//
//     {
//       "tessera": "0.12.0",
//       "model": "gpt2",
//       "data-scale": null,
//       "mesh": "dp=2",
//       "strategy": "dp=ddp",
//       "threads": 2,
//       "ddp.bucket-mb": 25
//     }
//
// What depends on the format of the data stays null: the file can then be used with other data.

#include "record/resolved_config.h"

#include <algorithm>

#include "base/concat.h"
#include "config/settings/settings_file.h"

namespace tessera::host {
namespace {

std::variant<int64_t, double, bool, std::string> value_of(const PluginOption& option, const tsr_option_value& value) {
  switch (option.type) {
    case TSR_OPTION_INT:
      return value.i;
    case TSR_OPTION_FLOAT:
      return value.d;
    case TSR_OPTION_BOOL:
      return value.i != 0;
    default:
      return std::string(view(value.s));
  }
}

/// The values are in the order of the plugin's options.
void add_options(std::vector<PluginSetting>& settings, const std::string& prefix, const LoadedPlugin& plugin,
                 const PluginOptions& options) {
  const auto values = options.values();
  for (size_t i = 0; i < values.size(); ++i)
    settings.push_back(
        {concat(prefix, plugin.name, ".", plugin.options[i].name), value_of(plugin.options[i], values[i])});
}

std::vector<PluginSetting> option_settings(const Job& job) {
  std::vector<PluginSetting> settings;
  const JobPlugins& plugins = job.plugins;
  for (size_t axis = 0; axis < plugins.strategies.size(); ++axis) {
    if (!plugins.strategies[axis]) continue;
    const LoadedPlugin& plugin = *plugins.strategies[axis];
    // Several axes may have one strategy, with options of their own.
    const bool is_alone = std::ranges::count_if(plugins.strategies, [&](const auto& other) {
                            return other && other->name == plugin.name;
                          }) == 1;
    add_options(settings, is_alone ? "" : job.axes[axis].name + ".", plugin, job.options.strategies[axis]);
  }
  for (size_t i = 0; i < plugins.offload.size(); ++i)
    add_options(settings, "", plugins.offload[i], job.options.offload[i]);
  if (plugins.communicator) add_options(settings, "", *plugins.communicator, job.options.communicator);
  add_options(settings, "", plugins.device, job.options.device);
  if (!job.computes_on_host()) add_options(settings, "", plugins.cpu, job.options.cpu);
  return settings;
}

}  // namespace

std::string resolved_config(const Job& job, int num_threads) {
  TrainConfig config = job.config;
  config.threads = num_threads;
  config.data_order = data_order(job);
  config.mesh.clear();
  config.strategies.clear();
  for (const MeshAxis& axis : job.axes) {
    config.mesh.push_back({axis.name, axis.num_ranks});
    if (!axis.strategy.empty()) config.strategies.push_back({axis.name, axis.strategy});
  }
  return settings_json(config, job.trains ? FlagSet::train : FlagSet::eval, option_settings(job), TESSERA_VERSION);
}

}  // namespace tessera::host
