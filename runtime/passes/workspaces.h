// Workspaces of communicators.
#pragma once

#include "program/collective.h"
#include "program/program.h"

namespace tessera::host {

/// Binds the workspaces that communicators ask for, as ordinary buffers in the memory of the operands.
void bind_workspaces(Program& program, const DescribeCollective& describe);

}  // namespace tessera::host
