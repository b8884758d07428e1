// Dead code elimination for frozen parameters.
#pragma once

#include "program/program.h"

namespace tessera::host {

/// Removes from a fresh base program what frozen parameters make useless: gradients of values that reach no trainable
/// parameter, backwards without a remaining result, what a forward saves for those, and the buffers of all these.
/// Without frozen parameters nothing changes.
void eliminate_dead_code(Program& program);

}  // namespace tessera::host
