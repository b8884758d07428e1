// The base program: what one rank would run if only the batch were split. Passes start from here.
#pragma once

#include "program/lower_op.h"
#include "program/program.h"

namespace tessera::host {

/// STEP: for every micro-batch the forward of each segment, the loss, the backward in reverse; then squares, clip and
/// optimizer. One home per parameter; in each role, the homes of a unit are ranges of one buffer. EVAL: forward and
/// loss. INIT: no actions. All have the same persistent buffers. Gradients are bound with *add*.
Program build_program(const Model& model, const Mesh& mesh, const Coordinates& coordinates,
                      const StepConfig& step_config, const Layout& layout, uint32_t purpose,
                      const DescribeOp& describe);

}  // namespace tessera::host
