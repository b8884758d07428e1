// A collective action as the struct of the communicator's ABI, for running it and for asking about its workspace.
#pragma once

#include <functional>

#include "program/program.h"
#include "tessera/communicator.h"

namespace tessera::host {

/// The collective of an action, without pointers, stream and timeout. Borrows the action's counts.
tsr_collective collective_of(const Program& program, const Action& action);

/// Bytes of workspace a collective action needs in a group of `num_ranks`.
using DescribeCollective = std::function<uint64_t(const Program& program, const Action& action, int num_ranks)>;

}  // namespace tessera::host
