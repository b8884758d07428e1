#include "support/plugin_loader.h"
#include "support/paths.h"

#include <dlfcn.h>

#include <cstdlib>

#include "tessera/error.hpp"

namespace tessera::testing {
namespace {

std::string path_of(const std::string& name_and_option) {
  const std::string name = name_and_option.substr(0, name_and_option.find(':'));
  return name.find('/') == std::string::npos ? plugin_dir() + "/" + name + ".so" : name;
}

const tsr_factory& load_factory(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(TSR_E_NOT_FOUND, std::string("dlopen: ") + dlerror());
  const auto query = reinterpret_cast<tsr_plugin_query_fn>(dlsym(library, TSR_ENTRY_SYMBOL));
  if (!query) throw Error(TSR_E_ABI, path + " exports no " TSR_ENTRY_SYMBOL);
  tsr_handshake handshake{};
  handshake.magic = TSR_MAGIC;
  handshake.struct_size = sizeof handshake;
  handshake.abi_major = TSR_ABI_MAJOR;
  handshake.host_minor_min = handshake.host_minor_max = TSR_ABI_MINOR;
  handshake.pointer_bits = 8 * sizeof(void*);
  const tsr_factory* factory = nullptr;
  call(query, &handshake, nullptr, &factory);
  return *factory;
}

}  // namespace

const void* load_interface(const std::string& name, const char* interface_id) {
  const void* table = load_factory(path_of(name)).get_interface(str(interface_id));
  if (!table) throw Error(TSR_E_UNSUPPORTED, path_of(name) + " has no interface " + interface_id);
  return table;
}

std::vector<tsr_option_value> default_options(const std::string& name) {
  const tsr_descriptor& descriptor = *load_factory(path_of(name)).descriptor;
  const size_t colon = name.find(':'), equals = name.find('=');
  const std::string changed = colon == name.npos ? "" : name.substr(colon + 1, equals - colon - 1);
  std::vector<tsr_option_value> values;
  for (uint64_t i = 0; i < descriptor.num_options; ++i) {
    const tsr_option& option = descriptor.options[i];
    const std::string text = to_string(option.default_value);
    double number = text == "true" ? 1 : std::strtod(text.c_str(), nullptr);
    if (to_string(option.name) == changed) number = std::stod(name.substr(equals + 1));
    values.push_back({option.name, option.default_value, static_cast<int64_t>(number), number});
  }
  return values;
}

std::vector<tsr_slot_spec> describe_op(const tsr_device_interface& device, const tsr_op& op) {
  std::vector<tsr_slot_spec> slots(64);
  uint64_t num_slots = slots.size();
  call(device.describe, &op, slots.data(), &num_slots);
  slots.resize(num_slots);
  return slots;
}

}  // namespace tessera::testing
