// Activation checkpointing: the backward recomputes what it needs of a block instead of keeping it from the forward.
#pragma once

#include "passes/build_program.h"

namespace tessera::host {

/// Whether `program` is one that recompute_forward changes.
bool recomputes(const Program& program);

/// Works on step programs, after schedules and before compute or storage is split, as `program.step_config.recompute`
/// asks. For each micro-batch of a chosen block, RECOMPUTE actions write what the block's backwards read into new
/// buffers, before the first backward that needs them. Only segments that make some of it run again, with only those
/// outputs. What is read outside the block (its input, its output) is kept. Finds actions by segment, micro-batch and
/// bindings, so schedules may order them freely and split backwards into halves.
/// Does nothing where recomputes() is false.
void recompute_forward(Program& program, const DescribeOp& describe);

}  // namespace tessera::host
