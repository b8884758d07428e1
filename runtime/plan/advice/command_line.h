// A job's flags as a command line.
#pragma once

#include <string>
#include <vector>

#include "config/parse_flags.h"

namespace tessera::host {

/// The flags that differ from their defaults, and those of plugins: parse_flags() makes the same config of them.
std::vector<std::string> words_of(const ParsedFlags& flags);

/// "tessera train --model gpt2 ...", each word quoted where a shell needs it; "tessera plan ..." without --data, which
/// train requires.
std::string command_of(const ParsedFlags& flags);

}  // namespace tessera::host
