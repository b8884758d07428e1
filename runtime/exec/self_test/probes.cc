#include "exec/self_test/probes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/canonical_sum.hpp"

namespace tessera::host {
namespace {

constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();
constexpr float kEdge = -7, kUnset = -9;  // numbers of members are above 0

/// A whole number with so few bits that the sum over thousands of members is exact.
float number(int member, uint64_t element) {
  return static_cast<float>((member % 97 + 1) * 8 + static_cast<int>(element % 8));
}
float sum_of(int num_members, uint64_t element) {
  const int rounds = num_members / 97, rest = num_members % 97;
  return static_cast<float>(8 * (rounds * (97 * 98 / 2) + rest * (rest + 1) / 2) +
                            num_members * static_cast<int>(element % 8));
}

/// `count` numbers of a member, or of the sum over all, from `first` on.
std::vector<float> numbers(int member, uint64_t first, uint64_t count) {
  std::vector<float> all(count);
  for (uint64_t i = 0; i < count; ++i)
    all[i] = number(member, first + i);
  return all;
}
std::vector<float> sums(int num_members, uint64_t first, uint64_t count) {
  std::vector<float> all(count);
  for (uint64_t i = 0; i < count; ++i)
    all[i] = sum_of(num_members, first + i);
  return all;
}
std::vector<float> unset(uint64_t count) {
  return std::vector<float>(count, kUnset);
}

/// 1, 2, 3, 1, 2, ... times the unit
uint64_t part_of(int member, uint64_t unit) {
  return (1 + static_cast<uint64_t>(member) % 3) * unit;
}
/// Where there are no parts: about as much as all parts together.
uint64_t whole_of(const ProbedMember& me) {
  return me.unit * static_cast<uint64_t>(me.num_members) + 1;
}

Probe make(uint32_t kind, const char* name, uint64_t num_elements) {
  Probe probe;
  probe.name = name;
  tsr_collective& c = probe.collective;
  c.struct_size = sizeof c;
  c.kind = kind;
  c.dtype = TSR_F32;
  c.peer = -1;
  c.num_elements = num_elements;
  probe.before = probe.after = {kEdge};
  return probe;
}

/// Adds a range and an edge after it to the block; returns where the range begins.
int64_t add_range(Probe& probe, const std::vector<float>& before, const std::vector<float>& after) {
  const auto begin = static_cast<int64_t>(probe.before.size());
  probe.before.insert(probe.before.end(), before.begin(), before.end());
  probe.after.insert(probe.after.end(), after.begin(), after.end());
  probe.before.push_back(kEdge);
  probe.after.push_back(kEdge);
  return begin;
}

/// The parts of all members, one after another; this member's begins at `own`.
Probe make_of_parts(uint32_t kind, const char* name, const ProbedMember& me, uint64_t& own, uint64_t& total) {
  Probe probe = make(kind, name, 0);
  own = total = 0;
  for (int m = 0; m < me.num_members; ++m) {
    if (m == me.member) own = total;
    probe.counts.push_back(part_of(m, me.unit));
    total += probe.counts.back();
  }
  return probe;
}

Probe gather(const ProbedMember& me) {
  uint64_t own = 0, total = 0;
  Probe probe = make_of_parts(TSR_COLL_ALL_GATHER, "all_gather", me, own, total);
  std::vector<float> before = unset(total), after;
  for (int m = 0; m < me.num_members; ++m) {
    const std::vector<float> part = numbers(m, 0, part_of(m, me.unit));
    if (m == me.member) std::ranges::copy(part, before.begin() + static_cast<ptrdiff_t>(own));
    after.insert(after.end(), part.begin(), part.end());
  }
  probe.recv = add_range(probe, before, after);
  probe.send = probe.recv + static_cast<int64_t>(own);
  return probe;
}

Probe scatter(const ProbedMember& me) {
  uint64_t own = 0, total = 0;
  Probe probe = make_of_parts(TSR_COLL_REDUCE_SCATTER, "reduce_scatter", me, own, total);
  probe.collective.reduce = TSR_REDUCE_SUM;
  std::vector<float> after(total, kUndefined);
  std::ranges::copy(sums(me.num_members, own, part_of(me.member, me.unit)),
                    after.begin() + static_cast<ptrdiff_t>(own));
  probe.send = add_range(probe, numbers(me.member, 0, total), after);
  probe.recv = probe.send + static_cast<int64_t>(own);
  return probe;
}

Probe all_reduce(const ProbedMember& me) {
  const uint64_t count = whole_of(me);
  Probe probe = make(TSR_COLL_ALL_REDUCE, "all_reduce", count);
  probe.collective.reduce = TSR_REDUCE_SUM;
  probe.send = probe.recv = add_range(probe, numbers(me.member, 0, count), sums(me.num_members, 0, count));
  return probe;
}

/// From the last member, to reveal a root that is always 0.
Probe broadcast(const ProbedMember& me) {
  const uint64_t count = whole_of(me);
  Probe probe = make(TSR_COLL_BROADCAST, "broadcast", count);
  const int root = probe.collective.peer = me.num_members - 1;
  const std::vector<float> sent = numbers(root, 0, count);
  probe.send = probe.recv = add_range(probe, me.member == root ? sent : unset(count), sent);
  return probe;
}

Probe reduce(const ProbedMember& me) {
  const uint64_t count = whole_of(me);
  Probe probe = make(TSR_COLL_REDUCE, "reduce", count);
  probe.collective.reduce = TSR_REDUCE_SUM;
  const int root = probe.collective.peer = me.num_members - 1;
  const std::vector<float> own = numbers(me.member, 0, count);
  probe.send = add_range(probe, own, me.member == root ? sums(me.num_members, 0, count) : own);
  if (me.member == root) probe.recv = probe.send;
  return probe;
}

/// A member sends to another as much as it receives from it.
Probe exchange_parts(const ProbedMember& me) {
  Probe probe = make(TSR_COLL_ALL_TO_ALL, "all_to_all", 0);
  std::vector<float> sent, received;
  for (int other = 0; other < me.num_members; ++other) {
    const uint64_t count = part_of(me.member + other, me.unit);
    probe.counts.push_back(count);
    const std::vector<float> to = numbers(me.member, static_cast<uint64_t>(other), count);
    const std::vector<float> from = numbers(other, static_cast<uint64_t>(me.member), count);
    sent.insert(sent.end(), to.begin(), to.end());
    received.insert(received.end(), from.begin(), from.end());
  }
  probe.send = add_range(probe, sent, sent);
  probe.recv = add_range(probe, unset(received.size()), received);
  return probe;
}

/// In a ring: to the next member, from the one before.
Probe exchange(const ProbedMember& me) {
  Probe probe = make(TSR_COLL_EXCHANGE, "exchange", 0);
  probe.num_transferred = 2 * me.unit;
  const int before = (me.member + me.num_members - 1) % me.num_members;
  const std::vector<float> sent = numbers(me.member, 0, probe.num_transferred);
  probe.send = add_range(probe, sent, sent);
  probe.recv = add_range(probe, unset(probe.num_transferred), numbers(before, 0, probe.num_transferred));
  return probe;
}

Probe message(bool is_send, const ProbedMember& me, int peer) {
  const uint64_t count = 2 * me.unit;
  Probe probe = make(is_send ? TSR_COLL_SEND : TSR_COLL_RECV, is_send ? "send" : "recv", count);
  probe.collective.peer = peer;
  const std::vector<float> own = numbers(me.member, 0, count);
  if (is_send)
    probe.send = add_range(probe, own, own);
  else
    probe.recv = add_range(probe, unset(count), numbers(peer, 0, count));
  return probe;
}

}  // namespace

Probe sum_probe(int member, int num_members, bool sends, bool exchanges) {
  constexpr uint64_t kNumElements = 10;
  const auto numbers_of = [](int m) {
    std::array<float, kNumElements> numbers{};
    const auto scaled = static_cast<float>(m % 97);
    for (uint64_t i = 0; i < kNumElements; ++i)
      numbers[i] = i < kSumSends ? (scaled + 1) * static_cast<float>(i + 1)
                                 : std::ldexp(1 + scaled / 97, (m * 7 + static_cast<int>(i)) % 24);
    return numbers;
  };
  std::vector<std::array<float, kNumElements>> all;
  std::vector<const void*> operands;
  for (int m = 0; m < num_members; ++m)
    all.push_back(numbers_of(m));
  for (const auto& one : all)
    operands.push_back(one.data());
  std::vector<float> sum(kNumElements);
  reduce_range(TSR_F32, TSR_REDUCE_SUM, operands, sum.data(), kNumElements);
  sum[kSumSends] = sum[kSumExchanges] = kUndefined;

  Probe probe = make(TSR_COLL_ALL_REDUCE, "all_reduce", kNumElements);
  probe.collective.reduce = TSR_REDUCE_SUM;
  std::vector<float> own(all[static_cast<size_t>(member)].begin(), all[static_cast<size_t>(member)].end());
  own[kSumSends] = sends ? 1 : 0;
  own[kSumExchanges] = exchanges ? 1 : 0;
  probe.before = own;
  probe.after = sum;
  probe.send = probe.recv = 0;
  return probe;
}

ProbedMember large(const ProbedMember& me) {
  constexpr uint64_t kElements = uint64_t{1} << 18;  // of all parts together, about: 1 MiB
  return {me.member, me.num_members, kElements / 2 / static_cast<uint64_t>(me.num_members) | 1};
}

Probe probe_of(uint32_t kind, const ProbedMember& me) {
  switch (kind) {
    case TSR_COLL_ALL_REDUCE:
      return all_reduce(me);
    case TSR_COLL_ALL_GATHER:
      return gather(me);
    case TSR_COLL_REDUCE_SCATTER:
      return scatter(me);
    case TSR_COLL_BROADCAST:
      return broadcast(me);
    case TSR_COLL_REDUCE:
      return reduce(me);
    case TSR_COLL_ALL_TO_ALL:
      return exchange_parts(me);
    case TSR_COLL_EXCHANGE:
      return exchange(me);
    default:
      return {};
  }
}

std::vector<Probe> message_probes(const ProbedMember& me) {
  const bool is_first = me.member % 2 == 0;
  const int peer = is_first ? me.member + 1 : me.member - 1;
  if (peer >= me.num_members) return {};
  return {message(is_first, me, peer), message(!is_first, me, peer)};
}

}  // namespace tessera::host
