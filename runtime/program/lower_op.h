// Actions as the ops of a device.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// A device's describe(op) as a function: the slots of an op in launch order. Pure.
using DescribeOp = std::function<std::vector<tsr_slot_spec>(const tsr_op& op)>;

/// The op that an action stands for, ranges not filled; throws INVALID_ARGUMENT for collectives and calls.
tsr_op op_of(const Program& program, const Action& action);

/// What of a home this rank updates (all pieces, with their weight decay), and what it counts in the gradient norm: a
/// range that several ranks hold counts on the first of them only.
std::vector<tsr_op_range> optimizer_ranges(const Program& program, const Home& home);
std::vector<tsr_op_range> counted_ranges(const Program& program, const Home& home);

}  // namespace tessera::host
