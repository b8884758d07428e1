// Completes a program after all passes.
#pragma once

#include "program/program.h"

namespace tessera::host {

/// In this order:
///  - the sums over the ranks of the loss and of the squares of gradients;
///  - completion: gradients of parameters that several stages hold (tied embedding) are summed over these stages;
///  - the first *add* of a compute action or of `add` on a transient range becomes a *write*.
/// Throws INVALID_ARGUMENT for an add into a range that is only partly written.
void finalize_program(Program& program);

}  // namespace tessera::host
