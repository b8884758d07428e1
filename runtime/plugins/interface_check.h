// Checks of what a plugin's entry returned: its descriptor and its function table.
#pragma once

#include <string_view>

#include "plugins/loaded_plugin.h"

namespace tessera::host {

/// Throws UsageError, as below, if bits other than `known` are set: the host could only misunderstand them. `what`:
/// "flags in its table tsr.strategy/1".
void check_known_bits(uint64_t bits, uint64_t known, std::string_view what);

/// Copies the descriptor into `plugin`: kind, name, id, version, vendor, summary, options. Throws UsageError, with the
/// end of a sentence that starts with the plugin's path, for a descriptor that is too short, has an unknown kind or no
/// valid name, id or version, or has an option that is malformed or whose default is outside its own range.
void copy_descriptor(const tsr_descriptor* descriptor, LoadedPlugin& plugin);

/// The id of the table that a plugin of that kind has: "tsr.strategy/1".
std::string_view interface_id(PluginKind kind);
/// A copy of the plugin's table of that kind, of at least the floor's length and with every required function. Throws
/// UsageError as above.
const void* checked_interface(const void* table, PluginKind kind);

}  // namespace tessera::host
