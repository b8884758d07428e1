// A parsed command line of `tessera train`, `plan`, `eval` or `bench rates`.
#pragma once

#include <string>
#include <utility>
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
  /// --help was given: nothing else was checked, and only flags that name plugins were read.
  bool help = false;
  std::string config_file;  ///< --config; empty: none
  /// Of --config: paths of what the job reads, with the flags that they are taken for, that may not be meant here:
  /// relative ones, and those that were not UTF-8 when they were recorded.
  std::vector<std::pair<std::string, std::string>> doubtful_paths;
  bool print_config = false;       ///< the resolved configuration is asked for, instead of a run
  std::vector<std::string> notes;  ///< for the log: values of the file that the command line overrides
};

}  // namespace tessera::host
