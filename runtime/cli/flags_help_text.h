// `--help` of train, eval, plan and bench: the host's flags, and the options of the plugins that the command line
// names.
#pragma once

#include <string>

#include "config/parse_flags.h"

namespace tessera::host {

/// For a plugin that cannot be loaded, the reason takes the place of its options.
std::string flags_help_text(const ParsedFlags& flags);

}  // namespace tessera::host
