#include "exec/self_test/probes.h"

#include <array>
#include <cmath>
#include <utility>

#include "exec/self_test/probe_block.h"
#include "tessera/canonical_sum.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kSumElements = kSumEnd - kSumFirst, kSumWhole = kSumSends - kSumFirst;
using SumNumbers = std::array<float, kSumElements>;

/// Between 1 and 16, with all bits of a mantissa in use.
float drawn(int rank, uint64_t index) {
  const uint64_t bits = mixed_bits(rank, index);
  return std::ldexp(1 + static_cast<float>(bits >> 41) * 0x1p-23f, static_cast<int>(bits & 3));
}

SumNumbers sum_numbers(int rank) {
  SumNumbers numbers{};
  for (uint64_t i = 0; i < kSumElements; ++i)
    numbers[i] = i < kSumWhole ? static_cast<float>(summed_number(rank, i)) : drawn(rank, i);
  return numbers;
}

SumNumbers canonical_sum(const ProbedGroup& group) {
  std::vector<SumNumbers> all;
  std::vector<const void*> operands;
  for (const int rank : group.world_ranks)
    all.push_back(sum_numbers(rank));
  for (const SumNumbers& one : all)
    operands.push_back(one.data());
  SumNumbers sum{};
  reduce_range(TSR_F32, TSR_REDUCE_SUM, operands, sum.data(), sum.size());
  return sum;
}

ProbeElements elements_of(const SumNumbers& numbers) {
  ProbeElements elements;
  for (const float number : numbers)
    elements.push_back(element_bits(TSR_F32, number));
  return elements;
}

Probe message(const ProbedGroup& group, bool is_send, int peer) {
  constexpr uint64_t kNumElements = 2;
  Probe probe = make_probe(is_send ? TSR_COLL_SEND : TSR_COLL_RECV, is_send ? "send" : "recv", kNumElements);
  probe.collective.peer = peer;
  if (is_send)
    probe.send = add_range(probe, moved_elements(TSR_F32, group.own_rank(), 0, kNumElements));
  else
    probe.recv = add_range(probe, unset_elements(TSR_F32, kNumElements),
                           moved_elements(TSR_F32, group.rank(peer), 0, kNumElements));
  return probe;
}

}  // namespace

// Mantissas are full and as if drawn, so that in every other order about each second sum is rounded otherwise.
Probe sum_probe(const ProbedGroup& group, bool sends, bool exchanges, bool is_canonical) {
  Probe probe = make_probe(TSR_COLL_ALL_REDUCE, "all_reduce", kSumElements);
  probe.collective.reduce = TSR_REDUCE_SUM;
  probe.is_first_sum = true;
  ProbeElements own = elements_of(sum_numbers(group.own_rank()));
  own[kSumSends - kSumFirst] = element_bits(TSR_F32, sends ? 1 : 0);
  own[kSumExchanges - kSumFirst] = element_bits(TSR_F32, exchanges ? 1 : 0);
  probe.send = probe.recv = add_range(probe, own, elements_of(canonical_sum(group)));
  const uint64_t open_end = is_canonical ? kSumFirstOrdered : kSumEnd;
  leave_undefined(probe, kSumSends * sizeof(float), (open_end - kSumSends) * sizeof(float));
  return probe;
}

// Both halves of a number are in use, and carry from the low one to the high one.
Probe integer_sum_probe(const ProbedGroup& group, uint64_t num_elements) {
  constexpr uint64_t kBothHalves = 0x1'3000'0001;
  Probe probe = make_probe(TSR_COLL_ALL_REDUCE, "all_reduce of int64", num_elements, TSR_I64);
  probe.collective.reduce = TSR_REDUCE_SUM;
  ProbeElements own(num_elements), sum(num_elements);
  for (int member = 0; member < group.count(); ++member)
    for (uint64_t i = 0; i < num_elements; ++i) {
      const uint64_t number = static_cast<uint64_t>(summed_number(group.rank(member), i)) * (i + 1) * kBothHalves;
      if (member == group.own) own[i] = number;
      sum[i] += number;
    }
  probe.send = probe.recv = add_range(probe, own, sum);
  return probe;
}

// To the next member, from the one before.
Probe exchange_probe(const ProbedGroup& group) {
  constexpr uint64_t kNumElements = 2;
  Probe probe = make_probe(TSR_COLL_EXCHANGE, "exchange", 0);
  const int before = (group.own + group.count() - 1) % group.count();
  probe.send = add_range(probe, moved_elements(TSR_F32, group.own_rank(), 0, kNumElements));
  probe.recv = add_range(probe, unset_elements(TSR_F32, kNumElements),
                         moved_elements(TSR_F32, group.rank(before), 0, kNumElements));
  return probe;
}

std::vector<Probe> message_probes(const ProbedGroup& group) {
  const bool is_first = group.own % 2 == 0;
  const int peer = is_first ? group.own + 1 : group.own - 1;
  if (peer >= group.count()) return {};
  return {message(group, is_first, peer), message(group, !is_first, peer)};
}

}  // namespace tessera::host
