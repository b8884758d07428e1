// A collective action as the communicators' struct, and back to front: what planning asks of them.
#pragma once

#include <functional>

#include "program/program.h"
#include "tessera/communicator.h"

namespace tessera::host {

/// The collective an action stands for, pointers, stream and time-out not filled. Borrows the action's counts.
tsr_collective collective_of(const Program& program, const Action& action);

/// Bytes of workspace a collective action needs in a group of `num_ranks`.
using DescribeCollective = std::function<uint64_t(const Program& program, const Action& action, int num_ranks)>;

/// The workspace question, answered by a communicator's describe().
DescribeCollective describe_with(const tsr_communicator_interface* communicator);

}  // namespace tessera::host
