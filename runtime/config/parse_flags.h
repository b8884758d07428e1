// The first pass over the command line of `tessera train`, `plan` and `eval`: the host's own flags.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/flag.h"
#include "config/plan_flags.h"
#include "config/plugin_flag.h"
#include "config/train_config.h"

namespace tessera::host {

struct ParsedFlags {
  FlagSet set = FlagSet::train;
  TrainConfig config;
  PlanFlags plan;
  /// Flags with a dot in their name, for the second pass (plugins/plugin_options.h).
  std::vector<PluginFlag> plugin_flags;
  bool help = false;  ///< --help was given; then nothing else was checked
};

/// Reads the arguments after the command's name; eval's --model may be given as a word. Underscores in names count as
/// dashes. Throws UsageError for unknown
/// flags (with a suggestion), values that are not valid, flags that are not supported yet, flags given twice, missing
/// --model (train: and --data), and settings that contradict each other.
ParsedFlags parse_flags(FlagSet set, std::span<const std::string> arguments);

/// The text of `--help`: a usage line, groups of flags with their defaults, and `models`, the values of `--model`
/// (model/architectures.h). Plugins' options are in plugins/plugin_options.h.
std::string flags_help(FlagSet set, std::string_view models);

}  // namespace tessera::host
