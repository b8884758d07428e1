// Lowers actions to ops of a device.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// A device's describe(op) as a function: the slots of an op in launch order. Pure.
using DescribeOp = std::function<std::vector<tsr_slot_spec>(const tsr_op& op)>;

/// The op with 0 in each attribute and extent that ops of its kind do not have: a device refuses others.
tsr_op trimmed(tsr_op op);
/// The op of an action, without ranges; throws INVALID_ARGUMENT for collectives and calls.
tsr_op op_of(const Program& program, const Action& action);

/// The op of the update, as OPTIMIZER actions have it: kind and attributes, without dims and ranges.
tsr_op optimizer_op(const Program& program);

/// Floating-point operations of matrix products and attention (which is causal: half of the pairs). A backward has
/// twice those of its forward, each half of it as many as the forward.
double num_operations(const tsr_op& op);

/// The ranges of a home that this rank updates (all pieces, with their weight decay), and those that it counts in the
/// gradient norm: of several ranks that hold a range only the first one counts it.
std::vector<tsr_op_range> optimizer_ranges(const Program& program, const Home& home);
std::vector<tsr_op_range> counted_ranges(const Program& program, const Home& home);
/// Those that the op of an action gets: none unless it updates a home or sums its squares.
std::vector<tsr_op_range> op_ranges_of(const Program& program, const Action& action);

}  // namespace tessera::host
