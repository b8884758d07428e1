// One flag of train and plan.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/train_config.h"

namespace tessera::host {

/// The commands that have this table's flags. bench: of `tessera bench rates`.
enum class FlagSet { train, plan, bench, eval };

/// The group of the flags that say how parameters are updated.
inline constexpr std::string_view kOptimization = "Optimization";

/// How a file of settings writes the value.
enum class FlagKind { text, number, boolean };

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
  FlagKind kind = FlagKind::text;
  /// Of a repeatable flag: its values, each as `read` accepts it.
  std::function<std::vector<std::string>(const TrainConfig&)> items = {};
  bool is_train_only = false;  ///< `eval` refuses it: it would have no effect there
};

}  // namespace tessera::host
