// Actions that a policy runs on the host's processor.
#pragma once

#include <cstddef>
#include <set>

#include "offload/copies.h"
#include "program/program.h"

namespace tessera::host {

/// Puts these actions, by index, on the host's stream. Their operands are in the host's memory already, except the
/// step's scalars: what the actions read is copied there, and what they sum up goes into accumulators of their own,
/// which are added to the step's before anything reads these. The changes go into `copies`.
void run_on_host(Program& program, const std::set<size_t>& actions, CopyList& copies);

}  // namespace tessera::host
