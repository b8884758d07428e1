// The base program: what one rank would run if nothing were split but the batch. Passes start from here.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"

namespace tessera {

/// A device's describe(op) as a function: the slots of an op in launch order. Pure.
using DescribeOp = std::function<std::vector<tsr_slot_spec>(const tsr_op& op)>;

/// STEP: for every micro-batch the forward of each segment, the loss, the backward in reverse; then squares, clip and
/// optimizer, one home per parameter, each a range of its unit's one buffer per role. EVAL: forward and loss. INIT: no
/// action. All have the same persistent buffers. Gradients are bound with *add*.
Program base_program(const Model& model, const Mesh& mesh, const Coordinates& coordinates, const StepShape& shape,
                     const Layout& layout, uint32_t purpose, const DescribeOp& describe);

/// The op that an action stands for, ranges not filled; throws INVALID_ARGUMENT for collectives and calls.
tsr_op op_of(const Program& program, const Action& action);

/// What of a home this rank updates (all pieces, with their weight decay), and what it counts in the gradient norm: a
/// range that several ranks hold counts on the first of them only.
std::vector<tsr_op_range> optimizer_ranges(const Program& program, const Home& home);
std::vector<tsr_op_range> counted_ranges(const Program& program, const Home& home);

}  // namespace tessera
