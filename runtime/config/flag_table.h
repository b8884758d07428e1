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
  std::string_view value;  ///< placeholder of the value in the help; empty: a switch
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

}  // namespace tessera::host
