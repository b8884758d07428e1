#include "exec/self_test/probes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/concat.h"
#include "tessera/canonical_sum.hpp"
#include "tessera/collective.hpp"
#include "tessera/half.hpp"

namespace tessera::host {
namespace {

constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();
constexpr float kEdge = kProbeEdge, kUnset = -9;  // numbers of members are above 0
constexpr uint64_t kPeriod = 12;                  // of numbers that 16 bits hold

/// A whole number with so few bits that the sum over thousands of members is exact.
float number(int member, uint64_t element) {
  return static_cast<float>((member % 97 + 1) * 8 + static_cast<int>(element % 8));
}
float sum_of(int num_members, uint64_t element) {
  float sum = 0;
  for (int m = 0; m < num_members; ++m)
    sum += number(m, element);
  return sum;
}
/// 1, 2, 3, 1, 2, ...
uint64_t part_of(int member) {
  return 1 + static_cast<uint64_t>(member) % 3;
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
Probe make_of_parts(uint32_t kind, const char* name, int member, int num_members, uint64_t& own, uint64_t& total) {
  Probe probe = make(kind, name, 0);
  own = total = 0;
  for (int m = 0; m < num_members; ++m) {
    if (m == member) own = total;
    probe.counts.push_back(part_of(m));
    total += part_of(m);
  }
  return probe;
}

Probe gather(int member, int num_members) {
  uint64_t own = 0, total = 0;
  Probe probe = make_of_parts(TSR_COLL_ALL_GATHER, "all_gather", member, num_members, own, total);
  std::vector<float> before(total, kUnset), after;
  for (int m = 0; m < num_members; ++m)
    for (uint64_t k = 0; k < part_of(m); ++k)
      after.push_back(number(m, k));
  for (uint64_t k = 0; k < part_of(member); ++k)
    before[own + k] = number(member, k);
  probe.recv = add_range(probe, before, after);
  probe.send = probe.recv + static_cast<int64_t>(own);
  return probe;
}

Probe scatter(int member, int num_members) {
  uint64_t own = 0, total = 0;
  Probe probe = make_of_parts(TSR_COLL_REDUCE_SCATTER, "reduce_scatter", member, num_members, own, total);
  probe.collective.reduce = TSR_REDUCE_SUM;
  std::vector<float> before, after(total, kUndefined);
  for (uint64_t k = 0; k < total; ++k)
    before.push_back(number(member, k));
  for (uint64_t k = own; k < own + part_of(member); ++k)
    after[k] = sum_of(num_members, k);
  probe.send = add_range(probe, before, after);
  probe.recv = probe.send + static_cast<int64_t>(own);
  return probe;
}

/// From the last member, to reveal a root that is always 0.
Probe broadcast(int member, int num_members) {
  Probe probe = make(TSR_COLL_BROADCAST, "broadcast", 3);
  const int root = probe.collective.peer = num_members - 1;
  const std::vector<float> sent = {number(root, 0), number(root, 1), number(root, 2)};
  probe.send = probe.recv = add_range(probe, member == root ? sent : std::vector<float>(3, kUnset), sent);
  return probe;
}

Probe reduce(int member, int num_members) {
  Probe probe = make(TSR_COLL_REDUCE, "reduce", 3);
  probe.collective.reduce = TSR_REDUCE_SUM;
  const int root = probe.collective.peer = num_members - 1;
  const std::vector<float> own = {number(member, 0), number(member, 1), number(member, 2)};
  const std::vector<float> sum = {sum_of(num_members, 0), sum_of(num_members, 1), sum_of(num_members, 2)};
  probe.send = add_range(probe, own, member == root ? sum : own);
  if (member == root) probe.recv = probe.send;
  return probe;
}

/// A member sends to another as much as it receives from it.
Probe exchange_parts(int member, int num_members) {
  Probe probe = make(TSR_COLL_ALL_TO_ALL, "all_to_all", 0);
  std::vector<float> sent, received;
  for (int other = 0; other < num_members; ++other) {
    probe.counts.push_back(part_of(member + other));
    for (uint64_t k = 0; k < part_of(member + other); ++k) {
      sent.push_back(number(member, static_cast<uint64_t>(other) + k));
      received.push_back(number(other, static_cast<uint64_t>(member) + k));
    }
  }
  probe.send = add_range(probe, sent, sent);
  probe.recv = add_range(probe, std::vector<float>(received.size(), kUnset), received);
  return probe;
}

/// In a ring: to the next member, from the one before.
Probe exchange(int member, int num_members) {
  Probe probe = make(TSR_COLL_EXCHANGE, "exchange", 0);
  const int before = (member + num_members - 1) % num_members;
  const std::vector<float> sent = {number(member, 0), number(member, 1)};
  probe.send = add_range(probe, sent, sent);
  probe.recv = add_range(probe, {kUnset, kUnset}, {number(before, 0), number(before, 1)});
  return probe;
}

Probe message(bool is_send, int member, int peer) {
  Probe probe = make(is_send ? TSR_COLL_SEND : TSR_COLL_RECV, is_send ? "send" : "recv", 2);
  probe.collective.peer = peer;
  const std::vector<float> own = {number(member, 0), number(member, 1)};
  if (is_send)
    probe.send = add_range(probe, own, own);
  else
    probe.recv = add_range(probe, {kUnset, kUnset}, {number(peer, 0), number(peer, 1)});
  return probe;
}

/// Between 1 and 16, with all bits of a mantissa in use.
float drawn(int member, uint64_t element) {
  uint64_t bits = ((static_cast<uint64_t>(member) << 32) | element) + 1;  // splitmix64 (Steele et al. 2014)
  for (const uint64_t factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu})
    bits = (bits ^ (bits >> 30)) * factor;
  return std::ldexp(1 + static_cast<float>(bits >> 41) * 0x1p-23f, static_cast<int>(bits & 3));
}

/// Numbers in that dtype, as the float32 of a block that have these bytes.
std::vector<float> packed(const std::vector<float>& numbers, tsr_dtype dtype) {
  if (dtype == TSR_F32) return numbers;
  std::vector<uint16_t> narrow(numbers.size() + numbers.size() % 2);
  for (size_t i = 0; i < numbers.size(); ++i)
    narrow[i] = dtype == TSR_BF16 ? float_to_bf16(numbers[i]) : float_to_f16(numbers[i]);
  std::vector<float> block(narrow.size() / 2);
  std::memcpy(block.data(), narrow.data(), narrow.size() * sizeof(uint16_t));
  return block;
}

}  // namespace

// Mantissas are full and as if drawn, so that in every other order about each second sum is rounded otherwise.
Probe sum_probe(int member, int num_members, bool sends, bool exchanges, bool is_canonical) {
  constexpr uint64_t kNumElements = kSumEnd - kSumFirst, kNumWhole = kSumSends - kSumFirst;
  const auto numbers_of = [](int m) {
    std::array<float, kNumElements> numbers{};
    for (uint64_t i = 0; i < kNumElements; ++i)
      numbers[i] = i < kNumWhole ? static_cast<float>(m % 97 + 1) * static_cast<float>(i + 1) : drawn(m, i);
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

  Probe probe = make(TSR_COLL_ALL_REDUCE, "all_reduce", kNumElements);
  probe.collective.reduce = TSR_REDUCE_SUM;
  const auto& own = all[static_cast<size_t>(member)];
  probe.send = probe.recv = add_range(probe, {own.begin(), own.end()}, sum);
  probe.before[kSumSends] = sends ? 1 : 0;
  probe.before[kSumExchanges] = exchanges ? 1 : 0;
  probe.after[kSumSends] = probe.after[kSumExchanges] = kUndefined;
  if (!is_canonical) std::fill(probe.after.begin() + kSumFirstOrdered, probe.after.begin() + kSumEnd, kUndefined);
  return probe;
}

Probe integer_sum_probe(int member, int num_members) {
  constexpr int64_t kNumElements = 3, kBothHalves = 0x1'3000'0001;
  const auto count = [](int m) { return int64_t{m % 97 + 1}; };
  int64_t counts = 0;
  for (int m = 0; m < num_members; ++m)
    counts += count(m);
  const auto bits_of = [](int64_t factor) {
    std::vector<float> bits(2 * kNumElements);
    for (int64_t i = 0; i < kNumElements; ++i) {
      const int64_t number = factor * (i + 1) * kBothHalves;
      std::memcpy(&bits[static_cast<size_t>(2 * i)], &number, sizeof number);
    }
    return bits;
  };
  Probe probe = make(TSR_COLL_ALL_REDUCE, "all_reduce of int64", kNumElements);
  probe.collective.dtype = TSR_I64;
  probe.collective.reduce = TSR_REDUCE_SUM;
  probe.before = probe.after = {kEdge, kEdge};  // as wide as an element
  probe.send = probe.recv = add_range(probe, bits_of(count(member)), bits_of(counts));
  return probe;
}

// Members but the first and the last give zeros (to MIN and MAX the middle of both), so that 16 bits
// hold every result of any number of members.
Probe reduction_probe(const Reduction& reduction, int member, int num_members) {
  const uint32_t kind = reduction.kind, reduce = reduction.reduce;
  const tsr_dtype dtype = reduction.dtype;
  const auto given = [&](int m, uint64_t i) {
    const auto first = static_cast<float>(i + 1), last = static_cast<float>(2 * i + 4);
    if (m == 0) return first;
    if (m == num_members - 1) return last;
    return reduce == TSR_REDUCE_MIN || reduce == TSR_REDUCE_MAX ? (first + last) / 2 : 0.0f;
  };
  const auto reduced = [&](uint64_t i) {
    const auto first = static_cast<float>(i + 1), last = static_cast<float>(2 * i + 4);
    if (reduce == TSR_REDUCE_MIN) return first;
    if (reduce == TSR_REDUCE_MAX) return last;
    return reduce == TSR_REDUCE_AVG ? (first + last) / static_cast<float>(num_members) : first + last;
  };
  const bool scatters = kind == TSR_COLL_REDUCE_SCATTER;
  const uint64_t part = 4, total = scatters ? part * static_cast<uint64_t>(num_members) : part;
  const uint64_t begin = scatters ? part * static_cast<uint64_t>(member) : 0;
  std::vector<float> before, after;
  for (uint64_t i = 0; i < total; ++i)
    before.push_back(given(member, i % kPeriod));
  for (uint64_t i = begin; i < begin + part; ++i)
    after.push_back(reduced(i % kPeriod));
  Probe probe = make(kind, scatters ? "reduce_scatter" : "all_reduce", part);
  probe.name += concat(" (", reduce_name(reduce), " of ", dtype_name(dtype), ", not in place)");
  probe.collective.dtype = dtype;
  probe.collective.reduce = reduce;
  if (reduce == TSR_REDUCE_AVG) probe.tolerance = 1e-5f;  // a product by 1 / n is one
  const std::vector<float> sent = packed(before, dtype), received = packed(after, dtype);
  probe.send = add_range(probe, sent, sent);
  probe.recv = add_range(probe, std::vector<float>(received.size(), kUnset), received);
  return probe;
}

Probe probe_of(uint32_t kind, int member, int num_members) {
  switch (kind) {
    case TSR_COLL_ALL_GATHER:
      return gather(member, num_members);
    case TSR_COLL_REDUCE_SCATTER:
      return scatter(member, num_members);
    case TSR_COLL_BROADCAST:
      return broadcast(member, num_members);
    case TSR_COLL_REDUCE:
      return reduce(member, num_members);
    case TSR_COLL_ALL_TO_ALL:
      return exchange_parts(member, num_members);
    case TSR_COLL_EXCHANGE:
      return exchange(member, num_members);
    default:
      return {};
  }
}

std::vector<Probe> message_probes(int member, int num_members) {
  const int peer = member % 2 == 0 ? member + 1 : member - 1;
  if (peer >= num_members) return {};
  const bool is_first = member % 2 == 0;
  return {message(is_first, member, peer), message(!is_first, member, peer)};
}

}  // namespace tessera::host
