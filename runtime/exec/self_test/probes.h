// Probes of sums, and of messages. Those of other collectives: forms.h.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/self_test/probe.h"

namespace tessera::host {

/// The sum over all members, in place: four whole numbers, whose sum has the same bits in every order of addition; two
/// counts of the members that use messages (SEND and RECV; EXCHANGE), not defined in `after`; and 32 numbers whose sums
/// reveal the order: `is_canonical` expects that of the canonical tree, else they are not defined in `after`.
Probe sum_probe(const ProbedGroup& group, bool sends, bool exchanges, bool is_canonical);
/// Places in its block of float32 numbers, which begins and ends with an edge.
inline constexpr uint64_t kSumFirst = 1, kSumSends = 5, kSumExchanges = 6, kSumFirstOrdered = 7, kSumEnd = 39;

/// The sum of that many int64 over all members, in place, as that of a loss or of squares.
Probe integer_sum_probe(const ProbedGroup& group, uint64_t num_elements);

/// Messages in a ring.
Probe exchange_probe(const ProbedGroup& group);
/// The messages between two members, there and back, in the order in which they must be submitted.
std::vector<Probe> message_probes(const ProbedGroup& group);

}  // namespace tessera::host
