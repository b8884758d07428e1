// Every flag of `tessera train` and `tessera plan` as one row: its help, how it is read into a TrainConfig and printed
// from it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/train_config.h"

namespace tessera::host {

struct Flag {
  std::string_view group;
  std::string_view name;   ///< without dashes
  std::string_view value;  ///< what the help writes for the value, such as N; empty: a switch
  std::string_view help;
  /// Reads `text` into the config; throws UsageError.
  std::function<void(TrainConfig&, std::string_view text)> read;
  /// The config's value as text that `read` accepts; empty: not set.
  std::function<std::string(const TrainConfig&)> print;
  bool is_shared = true;  ///< all ranks must agree on it
  bool is_repeatable = false;
};

/// All flags, in the order of the help.
std::span<const Flag> train_flags();

/// One resolved setting, as text.
struct ConfigField {
  std::string name;  ///< the flag without dashes: "batch-size"
  std::string value;
};

/// Every field that all ranks must agree on, in the order of the help. It leaves out the paths of model, data, plugins
/// and metrics, which may differ between machines (ranks compare what they read from them), --overwrite, log level and
/// delays.
std::vector<ConfigField> shared_fields(const TrainConfig& config);

}  // namespace tessera::host
