// Options of plugins, from the command line to the values that a plugin's create or open receives.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/plugin_flag.h"
#include "plugins/loaded_plugin.h"

namespace tessera::host {

/// A value as the ABI passes it together with its text.
struct OptionValue {
  int64_t i = 0;
  double d = 0;
};

/// Reads `text` as a value of `option`. Throws UsageError, naming `flag`, for a wrong type, range or choice.
OptionValue check_option_value(const std::string& flag, const PluginOption& option, const std::string& text);

/// The resolved options of one instance of a plugin. `values()` is valid as long as this object or a copy of it lives.
class PluginOptions {
 public:
  /// For a plugin without options.
  PluginOptions() = default;
  /// The defaults of `plugin`, overridden by the `flags` for it: `--<plugin>.<option>`, and with precedence over these
  /// `--<axis>.<plugin>.<option>` for a strategy on `axis`. Throws UsageError for a value that is missing, of the wrong
  /// type or outside its range.
  PluginOptions(const LoadedPlugin& plugin, std::string_view axis, const std::vector<PluginFlag>& flags);

  std::span<const tsr_option_value> values() const noexcept;

 private:
  struct Storage;
  std::shared_ptr<const Storage> storage_;
};

/// One plugin of the job and where it is used.
struct PluginUse {
  const LoadedPlugin* plugin = nullptr;
  std::string axis;  ///< of a strategy; empty for other kinds
};

/// Whether the flag names an option that the plugin of this use declares.
bool is_option_of(const PluginFlag& flag, const PluginUse& use);

/// Throws UsageError for a flag that no plugin in `uses` declares, with a suggestion, and for one that two of one name
/// declare. Values are checked by PluginOptions.
void check_flag_names(const std::vector<PluginFlag>& flags, std::span<const PluginUse> uses);

/// The end of an error about options of a plugin: "; see tessera plugins info ddp".
std::string see_options(const LoadedPlugin& plugin);

/// Whether ranks may differ in this option, because the plugin is a communicator that declares it as per-rank (a
/// network interface, for instance).
bool is_per_rank(const LoadedPlugin& plugin, std::string_view option);

/// The help of a plugin's options, in 80 columns as those of the host (config/help/flag_text.h); empty: it has none.
std::string options_help(const LoadedPlugin& plugin);

}  // namespace tessera::host
