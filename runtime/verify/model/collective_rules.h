// What collectives and messages make of the contents of the ranks that take part in them.
#pragma once

#include <vector>

#include "program/collective_operands.h"
#include "verify/collective_matching.h"
#include "verify/model/walked_ranks.h"

namespace tessera::host {

/// What `rank` has of `parts`, which `from` gives it: nothing of what is of its own tokens.
ContentParts taken(const Mesh& mesh, int rank, int from, ContentParts parts);
/// The same of what is not joined with the parts of other ranks: nothing of its own part of what tensors are split
/// into, either, nor gradients, squares and scalars of another replica of what diverges. `program` is of a rank here.
ContentParts taken_alone(const Mesh& mesh, const Program& program, int rank, int from, ContentParts parts);

/// Applies the collective that these actions are together.
void apply_collective(WalkedRanks& ranks, const std::vector<ActionRef>& members);

}  // namespace tessera::host
