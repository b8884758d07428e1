// Runs strategies on a program: they read a snapshot of it and edit a private copy through a table of functions.
#pragma once

#include "passes/build_program.h"
#include "program/program.h"
#include "program/strategy_on_axis.h"

namespace tessera::host {

/// Runs one pass: returns the edited copy. When the pass fails or an edit is invalid, an Error names strategy, axis and
/// reason.
Program after_pass(const Program& program, const StrategyOnAxis& strategy, const DescribeOp& describe);
/// The same in place; with an Error `program` is unchanged.
void run_pass(Program& program, const StrategyOnAxis& strategy, const DescribeOp& describe);

/// Appends the layout that a strategy declares to `program.layout`; entries for another axis are refused.
void add_layout(Program& program, const StrategyOnAxis& strategy);

}  // namespace tessera::host
