// Small collectives whose results are known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/communicator.h"

namespace tessera::host {

/// A collective over ranges of one block of float32 numbers. Everything between and around the ranges must stay
/// unchanged.
struct Probe {
  std::string name;              ///< "all_gather"
  tsr_collective collective{};   ///< without pointers, stream and time-out
  std::vector<uint64_t> counts;  ///< of `collective`
  std::vector<float> before;     ///< the block
  std::vector<float> after;      ///< the block afterwards; NaN: undefined
  int64_t send = -1, recv = -1;  ///< offsets in the block; -1: none
};

/// The sum over all members, in place: four whole numbers, whose sum has the same bits in every order of addition; two
/// counts of the members that use messages (SEND and RECV; EXCHANGE), NaN in `after`; and four numbers whose sum
/// reveals the order, expected in that of the canonical tree.
Probe sum_probe(int member, int num_members, bool sends, bool exchanges);
inline constexpr uint64_t kSumSends = 4, kSumExchanges = 5, kSumFirstOrdered = 6;

/// The sum of three int64 over all members, in place, as that of a loss or of squares. The block holds their bits; no
/// half of one is a NaN for fewer than 2^23 members.
Probe integer_sum_probe(int member, int num_members);

/// The probe of a kind in which all members take part (TSR_COLL_*). Parts have unequal lengths, which reveals a wrong
/// order or an ignored range. In place where the kind allows it. An empty name: the kind has no probe.
Probe probe_of(uint32_t kind, int member, int num_members);
/// The messages between two members, there and back, in the order in which they must be submitted.
std::vector<Probe> message_probes(int member, int num_members);

}  // namespace tessera::host
