// What a rank owns, without its programs: the homes that strategies make of it.
#pragma once

#include "compile/compile.h"
#include "verify/model/rank_homes.h"

namespace tessera::host {

/// The homes of the rank at `coordinates`: much cheaper than compile_rank.
RankHomes compile_homes(const CompileInput& input, const Coordinates& coordinates);

}  // namespace tessera::host
