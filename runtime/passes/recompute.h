// The host's own pass: what the backward needs of a block is computed again instead of kept from the forward.
#pragma once

#include "passes/build_program.h"

namespace tessera::host {

/// Works on step programs, after schedules and before compute or storage is split, as `program.shape.recompute` asks.
/// For each micro-batch of a chosen block, RECOMPUTE actions before the block's first backward that needs them write
/// what its backwards read into new buffers; only segments that make some of it run again, with only those outputs.
/// Kept is what is read outside the block (its input, its output). Finds actions by segment, micro-batch and bindings,
/// so schedules may have ordered them as they like and split backwards in halves.
void recompute_forward(Program& program, const DescribeOp& describe);

}  // namespace tessera::host
