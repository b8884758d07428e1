// Which actions of which ranks meet: the k-th collectives of a communicator, the k-th send and receive of a pair.
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

/// The ranks whose actions have to be matched for all: one of each class, where ranks of one class meet one another in
/// the same action of their list, and the ranks of other classes class by class. That is so as long as their groups are
/// the world or whole axes, and messages stay among ranks of different classes; else it takes every rank.
RankClasses matched_ranks(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program);

/// Matches the actions of the representatives of `matched_ranks`, each for its class: members of a collective of one
/// class are one member. What does not match is a diagnostic, and left out of the result; so is an action on a rank
/// that is outside of the action's group.
MatchedOps match_ranks(const Mesh& mesh, const RankClasses& matched, const ProgramOf& program,
                       DiagnosticList& diagnostics);

}  // namespace tessera::host
