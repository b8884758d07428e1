// The help of train, eval, plan and bench rates: the flags of the host, from their table, and below them the options of
// the plugins named on the command line:
//
//     tessera train --strategy fsdp --help
//
// A plugin itself declares which options it has, so its file is loaded for that. One that cannot be loaded must not
// take the help away: the reason is printed in place of its options.

#include "cli/flags_help_text.h"

#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/log.h"
#include "config/default_plugins.h"
#include "config/help/flag_help.h"
#include "model/architectures.h"
#include "plugins/loader.h"
#include "plugins/plugin_options.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// In the order of the flags; default plugins only if they are named.
std::vector<std::pair<PluginKind, std::string>> named_plugins(const TrainConfig& config) {
  std::vector<std::pair<PluginKind, std::string>> named;
  const auto add = [&](PluginKind kind, const std::string& name) {
    const std::pair plugin(kind, name);
    if (std::ranges::find(named, plugin) == named.end()) named.push_back(plugin);
  };
  for (const StrategyFlag& strategy : config.strategies)
    add(PluginKind::strategy, strategy.plugin);
  if (config.comm != TrainConfig().comm) add(PluginKind::communicator, config.comm);
  if (config.device != kDefaultDevice) add(PluginKind::device, config.device);
  for (const std::string& policy : config.offload)
    add(PluginKind::offload, policy);
  return named;
}

}  // namespace

std::string plugin_options_help(PluginKind kind, const std::string& name, const std::vector<std::string>& plugin_dirs) {
  const std::string title = concat("\nOptions of ", flag_of(kind), " ", printable(name), ":\n");
  try {
    const LoadedPlugin plugin = load_plugin(kind, name, plugin_folders(plugin_dirs), Log(LogLevel::off));
    const std::string options = options_help(plugin);
    return title + (options.empty() ? "  none\n" : options);
  } catch (const Error& error) {
    return concat(title, "  ", wrapped(printable(error.what()), kHelpColumns, 2), "\n");
  }
}

std::string flags_help_text(const ParsedFlags& flags) {
  std::string text = flags_help(flags.set, models_help());
  const auto named = named_plugins(flags.config);
  for (const auto& [kind, name] : named)
    text += plugin_options_help(kind, name, flags.config.plugin_dirs);
  if (!named.empty()) return text;
  return text + "\n" +
         wrapped(
             "Plugins have options of their own, --PLUGIN.OPTION=VALUE. Name plugins together with --help to list "
             "theirs, or run tessera plugins info NAME.") +
         "\n";
}

}  // namespace tessera::host
