// A collective action as the communicators' struct, and back to front: what planning asks of them.
#pragma once

#include "program/finish.h"
#include "program/program.h"
#include "tessera/communicator.h"

namespace tessera {

/// The collective an action stands for, pointers, stream and time-out not filled. Borrows the action's counts.
tsr_collective collective_of(const Program& program, const Action& action);

/// The workspace question, answered by a communicator's describe().
DescribeCollective describe_with(const tsr_communicator_interface* communicator);

}  // namespace tessera
