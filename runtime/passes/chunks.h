// Homes cut into chunks, so that an update can pass over them piece by piece.
#pragma once

#include <cstdint>

#include "program/program.h"

namespace tessera::host {

/// Replaces the homes that `sum_squares` and `optimizer` name by homes of at most `chunk_bytes` of float32 values, and
/// these actions by one for each of those. Homes that are side by side in all their roles become one before they are
/// cut. No bit changes: updates are element by element, and sums of squares are exact. Runs after finalize_program.
void cut_homes(Program& program, uint64_t chunk_bytes);

}  // namespace tessera::host
