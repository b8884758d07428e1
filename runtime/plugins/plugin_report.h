// The texts of `tessera plugins list` and `tessera plugins info NAME`.
#pragma once

#include <string>

#include "plugins/loader.h"

namespace tessera::host {

/// One plugin per line: kind, name, and its path or why check_plugin_file refuses it. Loads nothing.
/// With `as_json` an array of {"kind", "name", "path", "status"}; status is "ok" or the refusal.
std::string plugins_list(const std::vector<std::filesystem::path>& folders, bool as_json);

/// Loads the plugin `name` (as on the command line, or its file's name such as "gloo-comm", or a path) and describes it
/// and its options. Throws UsageError when it is refused or does not exist, or when plugins of two kinds have that
/// name.
std::string plugin_info(const std::string& name, const std::vector<std::filesystem::path>& folders, bool as_json,
                        const Log& log);

}  // namespace tessera::host
