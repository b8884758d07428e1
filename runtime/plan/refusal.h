// Why a planned job must not start.
#pragma once

#include <optional>

#include "compile/compile.h"
#include "job/job.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// Its ranks' programs do not fit one another, or --device-memory; nothing when it may start.
std::optional<Error> refusal_of(const Job& job, const CompileInput& input, const JobPrograms& programs);

}  // namespace tessera::host
