// Small collectives whose results are known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/communicator.h"

namespace tessera::host {

/// A collective over float32 numbers in one block of memory, of which it uses ranges: what is between them and around
/// them must stay as it was.
struct Probe {
  std::string name;              ///< "all_gather"
  tsr_collective collective{};   ///< without pointers, stream and time-out
  std::vector<uint64_t> counts;  ///< of `collective`
  std::vector<float> before;     ///< the block
  std::vector<float> after;      ///< the block then; NaN: undefined
  int64_t send = -1, recv = -1;  ///< where in the block; -1: none
};

/// The sum over all members, in place: four whole numbers, for which every order of addition gives the same bits; two
/// more, which count the members that use messages (SEND and RECV; EXCHANGE) and are NaN in `after`; and four whose sum
/// shows the order, of the canonical tree.
Probe sum_probe(int member, int num_members, bool sends, bool exchanges);
inline constexpr uint64_t kSumSends = 4, kSumExchanges = 5, kSumFirstOrdered = 6;

/// The probe of a kind that all members take part in, TSR_COLL_*, with parts of unequal length: where parts come in
/// another order, or a range is ignored, it shows. In place where the kind allows it. A name that is empty: the kind
/// has none.
Probe probe_of(uint32_t kind, int member, int num_members);
/// The messages of pairs of members, in the order in which they must be submitted: to the other one and back.
std::vector<Probe> message_probes(int member, int num_members);

}  // namespace tessera::host
