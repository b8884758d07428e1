// What only a communicator knows of its options, found out before any rank is started.
#pragma once

#include "job/job.h"

namespace tessera::host {

/// Makes the job's communicator for a group of one, on the CPU, with the options given, and destroys it. Throws
/// UsageError for what it refuses. Nothing for a job without options of the communicator, or where comm streams are not
/// the host's.
void try_communicator(const Job& job, const Log& log);

}  // namespace tessera::host
