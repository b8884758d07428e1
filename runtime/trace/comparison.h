// Compares predicted and measured times of the same actions.
#pragma once

#include <string>

#include "trace/summary.h"

namespace tessera::host {

/// Throws INVALID_ARGUMENT, naming the difference, unless both have the same number of ranks and of actions of each
/// kind; `where` names the measured trace.
void check_same_program(const TraceSummary& predicted, const TraceSummary& measured, const std::string& where);

/// A table: the step, each kind of action, communication and idle compute, predicted and measured. Times of
/// collectives are without their wait for other ranks, which has a row of its own.
std::string comparison_text(const TraceSummary& predicted, const TraceSummary& measured);

}  // namespace tessera::host
