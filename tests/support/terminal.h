// Runs a program on a pseudo-terminal, and reads what that shows.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::testing {

struct TerminalResult {
  int exit_code = -1;   ///< 128 + n when signal n ended it
  std::string written;  ///< to the terminal, as it came
  /// What the terminal shows at the end, including lines that were scrolled out: carriage returns and erased lines are
  /// applied, colors are dropped.
  std::vector<std::string> lines;
};

/// Runs a program whose standard streams are a terminal with that many columns. `environment` is added to this
/// process's; a variable with an empty value is removed. Kills it after kPatience.
TerminalResult run_on_terminal(std::vector<std::string> argv, const std::map<std::string, std::string>& environment,
                               int num_columns);

/// What a terminal shows after `written`.
std::vector<std::string> shown(std::string_view written);

}  // namespace tessera::testing
