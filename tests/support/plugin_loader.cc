#include "support/plugin_loader.h"
#include "support/paths.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

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

/// Of "name:option=value,option=value".
std::map<std::string, std::string> changed_options(const std::string& name) {
  std::map<std::string, std::string> changed;
  for (size_t begin = name.find(':'); begin != name.npos; begin = name.find(',', begin + 1)) {
    const size_t equals = name.find('=', begin);
    changed[name.substr(begin + 1, equals - begin - 1)] = name.substr(equals + 1, name.find(',', equals) - equals - 1);
  }
  return changed;
}

/// For the life of the process, as the texts of a descriptor. [any-thread]
const std::string& kept(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> texts;
  const std::lock_guard lock(mutex);
  return *texts.insert(text).first;
}

}  // namespace

const void* load_interface(const std::string& name, const char* interface_id) {
  const void* table = load_factory(path_of(name)).get_interface(str(interface_id));
  if (!table) throw Error(TSR_E_UNSUPPORTED, path_of(name) + " has no interface " + interface_id);
  return table;
}

std::vector<tsr_option_value> default_options(const std::string& name) {
  const tsr_descriptor& descriptor = *load_factory(path_of(name)).descriptor;
  const auto changed = changed_options(name);
  std::vector<tsr_option_value> values;
  for (uint64_t i = 0; i < descriptor.num_options; ++i) {
    const tsr_option& option = descriptor.options[i];
    const auto other = changed.find(to_string(option.name));
    const tsr_str value = other == changed.end() ? option.default_value : str(kept(other->second));
    const std::string text = to_string(value);
    const double number = text == "true" ? 1 : std::strtod(text.c_str(), nullptr);
    values.push_back({option.name, value, static_cast<int64_t>(number), number});
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
