// Plugins of the build, loaded as the host loads them: dlopen, handshake, table.
#pragma once

#include <string>

#include "tessera/core.h"

namespace tessera::testing {

/// The table `interface_id` of plugin `name` in plugin_dir(), for the life of the process. Throws Error.
const void* load_interface(const std::string& name, const char* interface_id);

template <class Interface>
const Interface& load_plugin(const std::string& name, const char* interface_id) {
  return *static_cast<const Interface*>(load_interface(name, interface_id));
}

}  // namespace tessera::testing
