// Holds what all programs of a job have in common against one another.
#pragma once

#include "verify/diagnostics.h"

namespace tessera::host {

/// A program has the job's configuration, the layout of `first`, rank 0's init program, and the buffers of `init`, its
/// own rank's, that outlive a step: the host fills and reads them by name, whatever the program does with them.
void verify_common(const Program& program, const Program& init, const Program& first, const StepConfig& config,
                   DiagnosticList& diagnostics);

}  // namespace tessera::host
