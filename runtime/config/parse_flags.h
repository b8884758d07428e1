// The first pass over the command line of `tessera train`, `plan` and `eval`: the host's own flags.
#pragma once

#include <span>
#include <string>

#include "config/parsed_flags.h"

namespace tessera::host {

/// Reads the arguments after the command's name; eval's --model may be given as a word. Underscores in names count as
/// dashes. Flags that the file of --config has count where the command line does not give them. Throws UsageError for
/// unknown flags (with a suggestion), values that are not valid, flags that are not supported yet, flags given twice,
/// missing --model (train: and --data), and settings that contradict each other.
ParsedFlags parse_flags(FlagSet set, std::span<const std::string> arguments);

}  // namespace tessera::host
