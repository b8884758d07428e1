// Predicted against measured: the same actions as a plan simulated them and as a run did them.
#pragma once

#include <string>

#include "trace/summary.h"

namespace tessera::host {

/// Throws INVALID_ARGUMENT, naming what differs, unless both are of as many ranks with as many actions of each kind;
/// `where` names the measured one.
void check_same_program(const TraceSummary& predicted, const TraceSummary& measured, const std::string& where);

/// A table: the step, each kind of action, communication and idle compute, predicted and measured. Times of
/// collectives are without their wait for other ranks, which has a row of its own.
std::string comparison_text(const TraceSummary& predicted, const TraceSummary& measured);

}  // namespace tessera::host
