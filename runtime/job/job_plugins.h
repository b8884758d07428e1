// The plugins of a job and their options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/axes.h"
#include "config/plugin_flag.h"
#include "plugins/loaded_plugin.h"
#include "plugins/plugin_options.h"

namespace tessera::host {

/// The loaded plugins. `communicator` is set only when there is more than one rank or --comm names one. The
/// CPU is always loaded, for host memory; `cpu` may be `device`.
struct JobPlugins {
  LoadedPlugin device;
  LoadedPlugin cpu;
  std::optional<LoadedPlugin> communicator;
  std::string why_communicator;                         ///< how --comm auto chose it; empty when it was named
  std::vector<std::optional<LoadedPlugin>> strategies;  ///< by axis; none on an axis of one rank without a strategy
  std::vector<LoadedPlugin> offload;                    ///< in the order of --offload
};

/// Their options; empty for a plugin that is not loaded.
struct JobOptions {
  PluginOptions device, cpu, communicator;
  std::vector<PluginOptions> strategies;  ///< by axis
  std::vector<PluginOptions> offload;     ///< in the order of --offload
};

/// Throws UsageError for a plugin that does not exist or may not be loaded, and for two policies of one name. Warnings
/// go to `log`.
JobPlugins load_plugins(const TrainConfig& config, const std::vector<MeshAxis>& axes,
                        const std::vector<PluginFlag>& flags, const Log& log);

/// The plugins with the axes of the strategies among them.
std::vector<PluginUse> uses_of(const JobPlugins& plugins, const std::vector<MeshAxis>& axes);

/// Resolves the options from `flags`. Throws UsageError for a flag that no plugin has and for an invalid value. On one
/// rank, options of plugins that only several ranks load are checked too, and logged as having no effect.
JobOptions resolve_options(const JobPlugins& plugins, const TrainConfig& config, const std::vector<MeshAxis>& axes,
                           const std::vector<PluginFlag>& flags, const Log& log);

}  // namespace tessera::host
