// Plugins of the build, loaded as the host loads them: dlopen, handshake, table.
#pragma once

#include <string>
#include <vector>

#include "tessera/core.h"
#include "tessera/device.h"

namespace tessera::testing {

/// The table `interface_id` of plugin `name` in plugin_dir(), or of the file `name` if that has a slash, for the life
/// of the process; what follows a colon is left out. Throws Error.
const void* load_interface(const std::string& name, const char* interface_id);

/// The options of that plugin with their defaults, as the host gives them where the command line has none. After
/// "name:option=value,option=value" those options have other values.
std::vector<tsr_option_value> default_options(const std::string& name);

template <class Interface>
const Interface& load_plugin(const std::string& name, const char* interface_id) {
  return *static_cast<const Interface*>(load_interface(name, interface_id));
}

/// The slots of an op in launch order, as the device lists them; of at most 64. Throws Error.
std::vector<tsr_slot_spec> describe_op(const tsr_device_interface& device, const tsr_op& op);

}  // namespace tessera::testing
