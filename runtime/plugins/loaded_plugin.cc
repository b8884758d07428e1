// The kinds of plugins: their flags, file names and tables; and the fingerprint that ranks compare.

#include "plugins/loaded_plugin.h"

#include <iterator>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

struct KindTexts {
  std::string_view name, with_article, flag, suffix;
};

// In the order of the enumerators.
constexpr KindTexts kKinds[] = {
    {TSR_KIND_STRATEGY, "a strategy", "--strategy", ""},
    {TSR_KIND_COMMUNICATOR, "a communicator", "--comm", "-comm"},
    {TSR_KIND_DEVICE, "a device", "--device", "-device"},
    {TSR_KIND_OFFLOAD, "an offload policy", "--offload", "-offload"},
};
static_assert(std::size(kKinds) == std::size(kPluginKinds));

const KindTexts& texts_of(PluginKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

const void* table_of(const LoadedPlugin& plugin, PluginKind kind) {
  if (plugin.kind != kind)
    throw Error(TSR_E_INTERNAL, concat("the plugin ", plugin.name, " is ", with_article(plugin.kind),
                                       " but was used as ", with_article(kind)));
  return plugin.interface;
}

}  // namespace

std::string_view to_string(PluginKind kind) {
  return texts_of(kind).name;
}

std::string_view with_article(PluginKind kind) {
  return texts_of(kind).with_article;
}

std::string_view flag_of(PluginKind kind) {
  return texts_of(kind).flag;
}

std::string_view file_suffix(PluginKind kind) {
  return texts_of(kind).suffix;
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

const tsr_offload_interface* LoadedPlugin::offload() const {
  return static_cast<const tsr_offload_interface*>(table_of(*this, PluginKind::offload));
}

/// The hash, since a version stays the same while its author builds it again; libraries, since they compute too.
std::string LoadedPlugin::fingerprint() const {
  return concat(id, " ", version, " abi ", TSR_ABI_MAJOR, ".", abi_minor, " sha256 ", sha256, libraries);
}

}  // namespace tessera::host
