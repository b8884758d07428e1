// What --comm means.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "plugins/loaded_plugin.h"
#include "plugins/plugin_options.h"

namespace tessera::host {

struct ChosenCommunicator {
  LoadedPlugin plugin;
  std::string reason;  ///< why auto chose it, as the end of "NAME, since ..."; empty when it was named
};

/// Whether the ranks of a machine may share a device: its boolean option `share`, which a device has for that. A
/// communicator on the device's streams needs a device for each rank, as NCCL does; the default one does not.
bool ranks_may_share(const LoadedPlugin& device, const PluginOptions& options);

/// The communicator that `given` names. For `auto` the first, by name, that works on the streams of `device`; if none
/// does, if ranks may share the device, or if the device is the CPU, the default one, which connects processes and
/// hosts. Never one that keeps all ranks in one process: if one rank crashes, all do, so that choice is left to the
/// user. Throws what load_plugin throws for the one that is chosen; others that cannot be loaded are skipped.
/// [control-thread]
ChosenCommunicator choose_communicator(std::string_view given, const LoadedPlugin& device, bool is_shared,
                                       const LoadedPlugin& cpu, const std::vector<std::filesystem::path>& folders,
                                       const Log& log);

}  // namespace tessera::host
