// `--help` of train, eval, plan and bench: the host's flags, and the options of the plugins that the command line
// names.
#pragma once

#include <string>
#include <vector>

#include "config/parse_flags.h"
#include "plugins/loader.h"

namespace tessera::host {

/// For a plugin that cannot be loaded, the reason takes the place of its options.
std::string flags_help_text(const ParsedFlags& flags);

/// "Options of --comm NAME:" and one line each, or the reason why there are none.
std::string plugin_options_help(PluginKind kind, const std::string& name, const std::vector<std::string>& plugin_dirs);

}  // namespace tessera::host
