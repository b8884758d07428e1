// The names of a plugin's functions, for reports (guard/known_functions.h).
#pragma once

#include "plugins/loaded_plugin.h"

namespace tessera::host {

/// Makes the functions of the plugin's table known under "NAME (PATH)".
void know_functions_of(const LoadedPlugin& plugin);

}  // namespace tessera::host
