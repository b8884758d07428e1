// Which actions of which ranks meet: the k-th collectives of a communicator, the k-th send and receive of a pair.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "program/findings.h"
#include "program/program.h"

namespace tessera {

/// Rank r's program; the programs have passed verify_rank.
using ProgramOf = std::function<const Program&(int rank)>;

struct Place {
  int rank = 0;
  uint32_t action = 0;  ///< index in the rank's list
};

struct Meetings {
  std::vector<std::vector<Place>> collectives;  ///< the members of each, in the group's order
  struct Transfer {
    Place sender, receiver;
  };
  std::vector<Transfer> transfers;
};

/// Matches all ranks' actions. What does not match is a finding, and left out of the result.
Meetings match_ranks(const Mesh& mesh, const ProgramOf& program, FindingList& findings);

}  // namespace tessera
