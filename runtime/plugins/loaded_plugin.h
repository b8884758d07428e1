// A plugin that was loaded and passed every check.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/communicator.h"
#include "tessera/device.h"
#include "tessera/offload.h"
#include "tessera/strategy.h"

namespace tessera::host {

enum class PluginKind { strategy, communicator, device, offload };
inline constexpr PluginKind kPluginKinds[] = {PluginKind::strategy, PluginKind::communicator, PluginKind::device,
                                              PluginKind::offload};

/// TSR_KIND_*: "strategy", "communicator", "device", "offload".
std::string_view to_string(PluginKind kind);
/// As a sentence writes it: "a strategy", "a communicator", "a device", "an offload policy".
std::string_view with_article(PluginKind kind);
/// The flag that names a plugin of this kind: "--strategy", "--comm", "--device", "--offload".
std::string_view flag_of(PluginKind kind);
/// What follows the plugin's name in its file's name: "" ("ddp.so"), "-comm" ("gloo-comm.so"), "-device",
/// "-offload".
std::string_view file_suffix(PluginKind kind);

/// One option of a plugin's schema; a copy that owns its strings.
struct PluginOption {
  std::string name;
  std::string default_value;
  std::vector<std::string> choices;  ///< empty: any text
  std::string help;
  double min = 1, max = 0;   ///< inclusive; no limits when min > max
  uint32_t type = 0;         ///< TSR_OPTION_*
  bool is_per_rank = false;  ///< ranks may differ in it
};

/// A plugin stays loaded until the process ends, so copies of this may be kept anywhere.
struct LoadedPlugin {
  std::string path;       ///< absolute, without links
  std::string sha256;     ///< of the file, 64 hexadecimal digits
  std::string libraries;  ///< that it needs beside the program's: " libgloo.so.0 541232", names with sizes
  PluginKind kind = PluginKind::strategy;
  std::string name;
  std::string id;
  std::string version;
  std::string vendor;
  std::string summary;
  std::vector<PluginOption> options;
  uint32_t abi_minor = 0;           ///< the effective minor
  const void* interface = nullptr;  ///< the kind's table; use the accessors

  /// The plugin's table. They throw INTERNAL for a plugin of another kind.
  const tsr_strategy_interface* strategy() const;
  const tsr_communicator_interface* communicator() const;
  const tsr_device_interface* device() const;
  const tsr_offload_interface* offload() const;

  /// What all ranks must agree on: "org.tessera.ddp 0.12.0 abi 0.12 sha256 1f... libgloo.so.0 541232".
  std::string fingerprint() const;
};

}  // namespace tessera::host
