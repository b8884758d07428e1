// --config FILE: the flags that the command line does not give.
#pragma once

#include <set>
#include <string>

#include "config/parsed_flags.h"

namespace tessera::host {

/// Reads the file that `flags` names, and sets what the command line has not: `given` has the names of its flags, whose
/// values `flags` has. Values that the command line overrides are listed in flags.notes. Keys of flags that the command
/// does not have are ignored; `eval` takes its --data from "eval-data". Throws UsageError, with file and key.
void take_settings(ParsedFlags& flags, const std::set<std::string>& given);

}  // namespace tessera::host
