// Compute copies that are made for each use.
#pragma once

#include "program/program.h"

namespace tessera::host {

/// Replaces each `cast` of a home into a compute copy by one before every run of uses of the copy, in a buffer of its
/// own, so that no copy outlives a run and the home may leave device memory between them. A run is uses by compute
/// actions of the same block (or segment outside of blocks), micro-batch and direction in a row, or one other action.
/// No bit changes: the same numbers are rounded again. Runs after finalize_program.
void cast_anew(Program& program);

}  // namespace tessera::host
