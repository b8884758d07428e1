// Matches actions across ranks: the k-th collectives on a communicator, the k-th send and receive of a pair.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/rank_classes.h"
#include "verify/diagnostics.h"

namespace tessera::host {

struct ActionRef {
  int rank = 0;
  uint32_t action = 0;  ///< index in the rank's list
};

struct MatchedOps {
  std::vector<int> ranks;                           ///< whose actions were matched, ascending
  std::vector<std::vector<ActionRef>> collectives;  ///< the members of each, in the group's order
  struct Transfer {
    ActionRef sender, receiver;
  };
  std::vector<Transfer> transfers;
};

/// The ranks whose actions have to be matched: one of each class if ranks of a class take part in a collective with the
/// same action of their lists. That holds while groups are the world or whole axes, and messages pass between ranks of
/// different classes; otherwise every rank.
RankClasses matched_ranks(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program);

/// Matches the actions of the representatives of `matched_ranks`, each for its class: the members of a collective that
/// are in one class are one member. A mismatch is a diagnostic and is left out of the result; so is an action whose
/// group does not contain its rank.
MatchedOps match_ranks(const Mesh& mesh, const RankClasses& matched, const ProgramOf& program,
                       DiagnosticList& diagnostics);

/// The next part of verify_ranks: the order in which ranks reach matched actions.
Diagnostics verify_order(const ProgramOf& program, const MatchedOps& matched);

}  // namespace tessera::host
