// The commands of `tessera` as a table, from which main(), the help, the completions and the manual pages work.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/help/flag_text.h"

namespace tessera::host {

struct Subcommand {
  std::string_view name;
  std::string_view operands;  ///< the words after it; "list|info NAME": the first is one of these
  std::string_view what;      ///< for one line of the help
  /// Takes the arguments after the name, and all of argv; returns the exit code.
  int (*run)(std::span<const std::string> arguments, const std::vector<std::string>& argv);
  /// By group; `bench` has those of each part, in groups that begin with "bench PART".
  std::vector<FlagText> (*flags)();
  /// The rest of its help.
  HelpText (*help)();
};

/// In the order of the help.
std::span<const Subcommand> commands();

/// `tessera --help`.
std::string commands_help();

}  // namespace tessera::host
