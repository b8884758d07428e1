// Dead code elimination for frozen parameters.
#pragma once

#include "program/program.h"

namespace tessera::host {

/// Leaves out of a fresh base program what frozen parameters make useless: gradients of values that reach no trained
/// parameter, backwards that are left without a result, what a forward saves for those, and the buffers of all that.
/// Without frozen parameters nothing changes.
void eliminate_dead_code(Program& program);

}  // namespace tessera::host
