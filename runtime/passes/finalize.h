// What the host adds after all passes, so that no pass has to.
#pragma once

#include "program/collective.h"
#include "program/program.h"

namespace tessera::host {

/// In this order:
///  - the sums over the ranks of the loss and of the squares of gradients;
///  - completion: gradients of parameters that several stages hold (tied embedding) are summed over these;
///  - the first *add* of a compute action or of `add` on a transient range becomes a *write*;
///  - one `zero` before an action that reads across pads of a transient buffer (elements of no parameter).
/// Throws INVALID_ARGUMENT for an add into a range that is only partly written.
void finalize_program(Program& program);

/// Binds the workspace that communicators ask for, as buffers like any other, in the memory of the operands.
void bind_workspaces(Program& program, const DescribeCollective& describe);

}  // namespace tessera::host
