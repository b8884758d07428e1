// The help of train, eval, plan and bench, from the table of flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/flag.h"
#include "config/help/flag_text.h"

namespace tessera::host {

/// Every flag of the command, in the order of its help: a command's own flags first.
std::vector<FlagText> flag_texts(FlagSet set);

/// What the help has besides them. `models`: the values of `--model`, in lines (model/architectures.h).
HelpText help_text(FlagSet set, std::string_view models);

/// The text of `--help`: a usage line, examples, groups of flags with their defaults, and the models. Options of
/// plugins follow it (cli/flags_help_text.h).
std::string flags_help(FlagSet set, std::string_view models);

}  // namespace tessera::host
