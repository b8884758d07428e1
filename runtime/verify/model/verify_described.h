// Holds the operands of kernels against what the device says of their ops.
#pragma once

#include "program/lower_op.h"
#include "verify/diagnostics.h"

namespace tessera::host {

/// A bound slot of an action that computes has the elements and the dtype that the device lists, scratch too: a kernel relies
/// on them, and would touch what is beside a shorter range.
void verify_described(const Program& program, const DescribeOp& describe, DiagnosticList& diagnostics);

}  // namespace tessera::host
