// The plugins of a job and their options.
#pragma once

#include <optional>
#include <vector>

#include "base/log.h"
#include "config/axes.h"
#include "config/plugin_flag.h"
#include "plugins/loaded_plugin.h"
#include "plugins/plugin_options.h"

namespace tessera::host {

/// The loaded plugins; `communicator` only when there is more than one rank or --comm asks for another than the
/// default. The CPU is always there, as host: `cpu` may be `device`.
struct JobPlugins {
  LoadedPlugin device;
  LoadedPlugin cpu;
  std::optional<LoadedPlugin> communicator;
  std::vector<std::optional<LoadedPlugin>> strategies;  ///< by axis; none on an axis of one rank without a strategy
};

/// Their options; none where there is no plugin.
struct JobOptions {
  PluginOptions device, cpu, communicator;
  std::vector<PluginOptions> strategies;  ///< by axis
};

/// Throws UsageError for one that is not there or must not be loaded. Logs what was loaded on `log`.
JobPlugins load_plugins(const TrainConfig& config, const std::vector<MeshAxis>& axes, const Log& log);

/// Resolves the options from `flags`. Throws UsageError for a flag that none of the plugins has and for a value that is
/// not valid. On one rank, options of plugins that more ranks would load are checked, and `log` is told that they have
/// no effect.
JobOptions resolve_options(const JobPlugins& plugins, const TrainConfig& config, const std::vector<MeshAxis>& axes,
                           const std::vector<PluginFlag>& flags, const Log& log);

}  // namespace tessera::host
