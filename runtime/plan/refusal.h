// Why a planned job must not start.
#pragma once

#include <optional>

#include "compile/compile.h"
#include "job/job.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// The ranks' programs do not fit one another, or not into --device-memory; nothing when the job may start.
std::optional<Error> refusal_of(const Job& job, const CompileInput& input, const JobPrograms& programs);

}  // namespace tessera::host
