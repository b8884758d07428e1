// What torchrun reads of a rank that failed.
#pragma once

#include "launch/failure.h"

namespace tessera::host {

/// Writes the failure where TORCHELASTIC_ERROR_FILE says, as torch.distributed.elastic's error handler does, so that
/// torchrun shows its sentence. torchrun takes the earliest failure for the root cause, and one without a file for as
/// late as it notices it: so a failure that only reports another rank's is dated some seconds later. Does nothing
/// without the variable, and when the file cannot be written.
void write_torchelastic_error(const Failure& failure);

}  // namespace tessera::host
