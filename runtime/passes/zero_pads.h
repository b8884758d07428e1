// Zeroes the pads between the shards of parameters.
#pragma once

#include "program/program.h"

namespace tessera::host {

/// Inserts a `zero` before each action that reads pads of a transient buffer (elements of no parameter) that nothing
/// has written.
void zero_pads(Program& program);

}  // namespace tessera::host
