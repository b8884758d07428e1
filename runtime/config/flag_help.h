// The flags of train, eval, plan and bench in words, from the table of flags.
#pragma once

#include <vector>

#include "config/flag.h"
#include "config/flag_text.h"

namespace tessera::host {

/// Every flag of the command.
std::vector<FlagText> flag_texts(FlagSet set);

}  // namespace tessera::host
