#include "support/plugin_loader.h"
#include "support/paths.h"

#include <dlfcn.h>

#include "tessera/error.hpp"

namespace tessera::testing {

const void* load_interface(const std::string& name, const char* interface_id) {
  const std::string path = plugin_dir() + "/" + name + ".so";
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
  const void* table = factory->get_interface(str(interface_id));
  if (!table) throw Error(TSR_E_UNSUPPORTED, path + " has no interface " + interface_id);
  return table;
}

}  // namespace tessera::testing
