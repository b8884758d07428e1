// Small collectives whose results are known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/communicator.h"

namespace tessera::host {

inline constexpr float kProbeEdge = -7;

/// A collective over ranges of one block of float32 numbers. Everything between and around the ranges must stay
/// unchanged.
struct Probe {
  std::string name;              ///< "all_gather"
  tsr_collective collective{};   ///< without pointers, stream and time-out
  std::vector<uint64_t> counts;  ///< of `collective`
  std::vector<float> before;     ///< the block
  std::vector<float> after;      ///< the block afterwards; NaN: undefined
  int64_t send = -1, recv = -1;  ///< offsets in the block; -1: none
  float tolerance = 0;           ///< relative
};

/// The sum over all members, in place: four whole numbers, whose sum has the same bits in every order of addition; two
/// counts of the members that use messages (SEND and RECV; EXCHANGE), NaN in `after`; and 32 numbers whose sums
/// reveal the order: `is_canonical` expects that of the canonical tree, else they are NaN in `after`.
Probe sum_probe(int member, int num_members, bool sends, bool exchanges, bool is_canonical);
/// Places in its block, which begins and ends with an edge.
inline constexpr uint64_t kSumFirst = 1, kSumSends = 5, kSumExchanges = 6, kSumFirstOrdered = 7, kSumEnd = 39;

/// A reduction as programs use it: TSR_COLL_ALL_REDUCE or _REDUCE_SCATTER, its dtype of floats, TSR_REDUCE_*.
struct Reduction {
  uint32_t kind;
  tsr_dtype dtype;
  uint32_t reduce;

  auto operator<=>(const Reduction&) const = default;
};
/// A few numbers of each member, reduced from one range into another. All results are exact in the dtype but averages,
/// which are compared with a tolerance.
Probe reduction_probe(const Reduction& reduction, int member, int num_members);

/// The sum of three int64 over all members, in place, as that of a loss or of squares. The block holds their bits; no
/// half of one is a NaN for fewer than 2^23 members.
Probe integer_sum_probe(int member, int num_members);

/// The probe of a kind in which all members take part (TSR_COLL_*). Parts have unequal lengths, which reveals a wrong
/// order or an ignored range. In place where the kind allows it. An empty name: the kind has no probe.
Probe probe_of(uint32_t kind, int member, int num_members);
/// The messages between two members, there and back, in the order in which they must be submitted.
std::vector<Probe> message_probes(int member, int num_members);

}  // namespace tessera::host
