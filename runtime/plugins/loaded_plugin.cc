// The kinds of plugins: their flags, file names and tables; and the fingerprint that ranks compare.

#include "plugins/loaded_plugin.h"

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

const void* table_of(const LoadedPlugin& plugin, PluginKind kind) {
  if (plugin.kind != kind)
    throw Error(TSR_E_INTERNAL, concat("the plugin ", plugin.name, " is a ", to_string(plugin.kind),
                                       " but was used as a ", to_string(kind)));
  return plugin.interface;
}

}  // namespace

std::string_view to_string(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return TSR_KIND_STRATEGY;
    case PluginKind::communicator:
      return TSR_KIND_COMMUNICATOR;
    case PluginKind::device:
      break;
  }
  return TSR_KIND_DEVICE;
}

std::string_view flag_of(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return "--strategy";
    case PluginKind::communicator:
      return "--comm";
    case PluginKind::device:
      break;
  }
  return "--device";
}

std::string_view file_suffix(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return "";
    case PluginKind::communicator:
      return "-comm";
    case PluginKind::device:
      break;
  }
  return "-device";
}

const tsr_strategy_interface* LoadedPlugin::strategy() const {
  return static_cast<const tsr_strategy_interface*>(table_of(*this, PluginKind::strategy));
}

const tsr_communicator_interface* LoadedPlugin::communicator() const {
  return static_cast<const tsr_communicator_interface*>(table_of(*this, PluginKind::communicator));
}

const tsr_device_interface* LoadedPlugin::device() const {
  return static_cast<const tsr_device_interface*>(table_of(*this, PluginKind::device));
}

std::string LoadedPlugin::fingerprint() const {
  return concat(id, " ", version, " abi ", TSR_ABI_MAJOR, ".", abi_minor, " sha256 ", sha256);
}

}  // namespace tessera::host
