// Holds the operands of kernels against what the device says of their ops.
#pragma once

#include "program/lower_op.h"
#include "verify/diagnostics.h"

namespace tessera::host {

/// An action that computes binds each slot that the device lists, but optional ones, with the elements and the dtype
/// that are listed, scratch too: a kernel relies on them, and would touch what is beside a shorter range.
void verify_described(const Program& program, const DescribeOp& describe, DiagnosticList& diagnostics);

}  // namespace tessera::host
