// Holds what all programs of a job have in common against one another.
#pragma once

#include "verify/diagnostics.h"

namespace tessera::host {

/// A program has the job's configuration, the layout of `first`, rank 0's init program, and of its own rank's `init`
/// the homes and the buffers that outlive a step. The host fills and reads those by the homes of `step`, the rank's
/// first step program (its eval program where it has no other), whatever the program does with them; so all programs
/// but init have each home in the same places.
void verify_common(const Program& program, const Program& init, const Program& step, const Program& first,
                   const StepConfig& config, bool has_policies, DiagnosticList& diagnostics);

/// All programs of a rank have the homes of its `init`, piece by piece and in the same order. Part of verify_common,
/// which sees one rank of each class; each rank checks its own, before policies cut the homes of some programs.
void verify_pieces(const Program& program, const Program& init, DiagnosticList& diagnostics);

}  // namespace tessera::host
