// Options of plugins: from the command line, checked against a plugin's schema, to what its create and open receive.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/plugin_flag.h"
#include "plugins/loaded_plugin.h"

namespace tessera {

/// The resolved options of one instance of a plugin; owns every string. Moving or copying keeps `values()` valid for
/// each object.
class PluginOptions {
 public:
  /// The defaults of `plugin`, replaced by those of `flags` that are meant for it: `--<plugin>.<option>`, and, before
  /// those, `--<axis>.<plugin>.<option>` for a strategy on `axis`. Throws UsageError for a value of the wrong type or
  /// outside its range.
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

/// Throws UsageError, with a suggestion, for a flag that no plugin in `uses` declares.
void check_plugin_flags(const std::vector<PluginFlag>& flags, std::span<const PluginUse> uses);

/// The help of a plugin's options, one or two lines each.
std::string options_help(const LoadedPlugin& plugin);

}  // namespace tessera
