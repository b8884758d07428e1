// The base program: what one rank would run if nothing were split but the batch. Passes start from here.
#pragma once

#include "program/lower_op.h"
#include "program/program.h"

namespace tessera::host {

/// STEP: for every micro-batch the forward of each segment, the loss, the backward in reverse; then squares, clip and
/// optimizer, one home per parameter, each a range of its unit's one buffer per role. EVAL: forward and loss. INIT: no
/// action. All have the same persistent buffers. Gradients are bound with *add*.
Program build_program(const Model& model, const Mesh& mesh, const Coordinates& coordinates, const StepConfig& shape,
                      const Layout& layout, uint32_t purpose, const DescribeOp& describe);

}  // namespace tessera::host
