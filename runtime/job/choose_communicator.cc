// --comm auto, by what communicators claim and not by their names (decision 0049), so a third party's is found too:
//
//     --device is the CPU                    the default one
//     one works on the device's streams      the first such, by name, unless ranks may share a device
//     none does                              the default one: collectives pass through host memory

#include "job/choose_communicator.h"

#include <algorithm>
#include <optional>

#include "base/concat.h"
#include "config/default_plugins.h"
#include "config/usage_error.h"
#include "guard/plugin_calls.h"
#include "plugins/loader.h"
#include "plugins/trial.h"
#include "program/claims.h"

namespace tessera::host {
namespace {

constexpr std::string_view kShareOption = "share";

bool works_on(const LoadedPlugin& communicator, tsr_str stream_kind) {
  std::string reason;
  const auto claims = claims_on(*communicator.communicator(), communicator.name, stream_kind, reason);
  return claims && !(claims->flags & TSR_COMM_ONE_PROCESS);
}

/// In a child process: a plugin that no flag names must not end the run.
bool can_be_asked(const LoadedPlugin& communicator, tsr_str stream_kind, const Log& log) {
  try {
    try_in_child([&](const TrialStep& step) {
      step("its function caps");
      works_on(communicator, stream_kind);
    });
    return true;
  } catch (const UsageError& refused) {
    log.warning("--comm auto skips the plugin ", communicator.path, ", which ", refused.what());
    return false;
  }
}

std::optional<LoadedPlugin> first_that_works_on(tsr_str stream_kind, const std::vector<std::filesystem::path>& folders,
                                                const Log& log) {
  for (const PluginCandidate& candidate : list_plugins(folders)) {
    if (candidate.kind != PluginKind::communicator) continue;
    try {
      LoadedPlugin plugin = load_plugin(candidate.path, log);
      const bool is_one = plugin.kind == PluginKind::communicator;
      if (is_one && can_be_asked(plugin, stream_kind, log) && works_on(plugin, stream_kind)) return plugin;
    } catch (const UsageError& refused) {
      // No flag names this file, so the job does not need it.
      log.info("--comm auto skips ", candidate.path.string(), ": ", refused.what());
    }
  }
  return std::nullopt;
}

}  // namespace

bool ranks_may_share(const LoadedPlugin& device, const PluginOptions& options) {
  const auto is_share = [](const PluginOption& option) {
    return option.type == TSR_OPTION_BOOL && option.name == kShareOption;
  };
  return std::ranges::any_of(device.options, is_share) &&
         std::ranges::any_of(options.values(), [](const tsr_option_value& value) {
           return view(value.name) == kShareOption && value.i != 0;
         });
}

ChosenCommunicator choose_communicator(std::string_view given, const LoadedPlugin& device, bool is_shared,
                                       const LoadedPlugin& cpu, const std::vector<std::filesystem::path>& folders,
                                       const Log& log) {
  if (given != kAutoCommunicator) return {load_plugin(PluginKind::communicator, given, folders, log), ""};
  const tsr_str kind = device.device()->stream_kind;
  const bool is_cpu = view(kind) == view(cpu.device()->stream_kind);
  if (!is_cpu && !is_shared)
    if (auto plugin = first_that_works_on(kind, folders, log))
      return {std::move(*plugin), concat("it works on the streams of --device ", device.name)};
  return {load_plugin(PluginKind::communicator, kDefaultCommunicator, folders, log),
          is_cpu      ? std::string("it connects processes, on one machine or several")
          : is_shared ? concat("ranks may share a device under --", device.name, ".", kShareOption,
                               ", and it does not need one for each")
                      : concat("no communicator here works on the streams of --device ", device.name,
                               "; its collectives pass through host memory")};
}

}  // namespace tessera::host
