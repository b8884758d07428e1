// What a host gives to a plugin, and a plugin that was loaded.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tiny_step.h"

namespace tessera::minors {

[[noreturn]] inline void stop(const char* what, const char* why) {
  std::printf("refused: %s: %s\n", what, why);
  std::exit(1);
}
inline void check(const char* what, tsr_status status, const tsr_error& err) {
  if (status != TSR_OK) stop(what, err.message[0] ? err.message : "no message");
}
/// Calls a function of a plugin, which must succeed.
template <class... P, class... A>
inline void call(const char* what, tsr_status (*function)(P...), A... args) {
  tsr_error err{};
  check(what, function(args..., &err), err);
}

#if TESSERA_IS_LATER
inline uint64_t next_function(uint64_t) TSR_NOEXCEPT {
  stop("next_function", "a plugin called what it cannot know");
}
#define TESSERA_GROWN_TABLE(table) (table).next_function = next_function
#else
#define TESSERA_GROWN_TABLE(table) static_cast<void>(table)
#endif

// ---- what a host has ------------------------------------------------------------------------------------------------

inline std::map<std::string, std::string> stored;
inline std::map<std::string, int64_t> counters;

inline std::string key_of(tsr_str key) {
  return {key.ptr, key.len};
}

inline const tsr_kv_service& store() {
  static const tsr_kv_service service = [] {
    tsr_kv_service kv{};
    kv.struct_size = sizeof kv;
    kv.set = [](void*, tsr_str key, const void* value, uint64_t num_bytes, tsr_error*) noexcept -> tsr_status {
      stored[key_of(key)].assign(static_cast<const char*>(value), num_bytes);
      return TSR_OK;
    };
    kv.get = [](void*, tsr_str key, void* value, uint64_t* num_bytes, int64_t, tsr_error*) noexcept -> tsr_status {
      const std::string& found = stored[key_of(key)];
      if (found.empty() || *num_bytes < found.size()) return TSR_E_DEADLINE;
      *num_bytes = found.copy(static_cast<char*>(value), found.size());
      return TSR_OK;
    };
    kv.add = [](void*, tsr_str key, int64_t delta, int64_t* result, tsr_error*) noexcept -> tsr_status {
      *result = counters[key_of(key)] += delta;
      return TSR_OK;
    };
    TESSERA_GROWN_TABLE(kv);
    return kv;
  }();
  return service;
}

inline tsr_host host_of(uint32_t minor) {
  tsr_host host{};
  host.struct_size = sizeof host;
  host.abi_minor = minor;
  host.log = [](void*, int32_t level, tsr_str line) noexcept {
    std::printf("log %d %.*s\n", level, static_cast<int>(line.len), line.ptr);
  };
  host.get_service = [](void*, tsr_str id) noexcept -> const void* {
    return key_of(id) == TSR_KV_SERVICE ? &store() : nullptr;
  };
  TESSERA_GROWN_TABLE(host);
  return host;
}

/// A plugin, with its options at their defaults.
struct Plugin {
  const tsr_factory* factory = nullptr;
  const tsr_descriptor* descriptor = nullptr;
  uint32_t minor = 0;
  tsr_host host{};
  std::vector<tsr_option_value> options = {};

  /// The table of that id, which is as long as the plugin's minor says.
  template <class Table>
  const Table* table(const char* id, uint64_t floor) const {
    const auto* found = static_cast<const Table*>(factory->get_interface(text_of(id)));
    if (!found || found->struct_size < floor) stop(id, "the table is missing or too short");
    if (factory->get_interface(text_of("tsr.no.such/1"))) stop(id, "there is a table for an id that does not exist");
#if TESSERA_IS_LATER
    if (minor < TSR_ABI_MINOR && TSR_HAS(found, Table, next_function)) stop(id, "the table is longer than its minor");
#endif
    return found;
  }
};

inline Plugin load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) stop("dlopen", dlerror());
  const auto query = reinterpret_cast<tsr_plugin_query_fn>(dlsym(library, TSR_ENTRY_SYMBOL));
  tsr_handshake io{TSR_MAGIC, sizeof io, TSR_ABI_MAJOR, TSR_OLDEST_MINOR, TSR_ABI_MINOR, 0, 0, 64, 0};
  const tsr_host before = host_of(TSR_ABI_MINOR);
  Plugin plugin;
  tsr_error err{};
  const tsr_status status = query(&io, &before, &plugin.factory, &err);
  if (status == TSR_E_ABI) {
    std::printf("refused: host 0.%u to 0.%u, plugin 0.%u to 0.%u\n", io.host_minor_min, io.host_minor_max,
                io.plugin_minor_min, io.plugin_minor_max);
    std::exit(2);
  }
  check("query", status, err);
  plugin.minor = io.plugin_minor_max < TSR_ABI_MINOR ? io.plugin_minor_max : TSR_ABI_MINOR;
  plugin.host = host_of(plugin.minor);
  plugin.descriptor = plugin.factory->descriptor;
  for (uint64_t i = 0; i < plugin.descriptor->num_options; ++i) {
    const tsr_option& option = plugin.descriptor->options[i];
    const std::string text = key_of(option.default_value);
    plugin.options.push_back({option.name, option.default_value, std::atoll(text.c_str()), std::atof(text.c_str())});
  }
  return plugin;
}

}  // namespace tessera::minors
