// Checks a communicator's options before any rank is started.
#pragma once

#include "job/job.h"

namespace tessera::host {

/// Creates the job's communicator for a group of one, on the CPU, with the given options, and destroys it. Throws
/// UsageError for what it refuses. Does nothing if no options are given or if comm streams are not the host's.
void try_communicator(const Job& job, const Log& log);

}  // namespace tessera::host
