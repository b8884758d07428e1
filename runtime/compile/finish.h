// The second half of the pipeline in compile.cc: from what strategies leave to programs that are planned in memory and
// checked. Internal to compile/.
#pragma once

#include "base/progress.h"
#include "compile/lower.h"
#include "compile/rank_programs.h"

namespace tessera::host {

/// Asks the policies again where their first moves do not fit. Throws INTERNAL for programs that are wrong, and what
/// policies throw.
RankPrograms finish_rank(const CompileInput& input, LoweredPrograms lowered, Progress& progress);

}  // namespace tessera::host
