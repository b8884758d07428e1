// Conformance of communicators, 1: what every collective computes, for all counts, in-place forms, and dtypes and
// reductions that are claimed, against exact references.
#include <cmath>
#include <numeric>

#include "conformance/communicators.h"
#include "tessera/collective.hpp"

namespace tessera::testing {
namespace {

constexpr uint64_t kCounts[] = {0, 1, 67, 4099};
constexpr uint64_t kLargeCount = 100003;

/// A small integer, so that every sum is exact in every dtype.
double value_at(int rank, uint64_t i) {
  return static_cast<double>((static_cast<uint64_t>(rank) * 3 + i * 7) % 13);
}

std::function<double(uint64_t)> values_of(int rank) {
  return [rank](uint64_t i) { return value_at(rank, i); };
}

double reduced_at(uint32_t reduce, tsr_dtype dtype, int num_ranks, uint64_t i) {
  double sum = 0, least = 100, most = -1;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const double value = value_at(rank, i);
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (reduce == TSR_REDUCE_MIN) return least;
  if (reduce == TSR_REDUCE_MAX) return most;
  if (reduce == TSR_REDUCE_SUM) return sum;
  if (dtype == TSR_F64) return sum / num_ranks;
  return static_cast<double>(static_cast<float>(sum) / static_cast<float>(num_ranks));
}

struct Slices {
  std::vector<uint64_t> counts, offsets;  // offsets: [n + 1]
  uint64_t total() const { return offsets.back(); }
};

Slices make_slices(std::vector<uint64_t> counts) {
  std::vector<uint64_t> offsets(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  return {std::move(counts), std::move(offsets)};
}

/// Counts per rank that are equal, uneven, sometimes 0, all in one rank, and large.
std::vector<Slices> slice_patterns(int num_ranks) {
  const size_t n = static_cast<size_t>(num_ranks);
  std::vector<std::vector<uint64_t>> patterns(5, std::vector<uint64_t>(n, 0));
  for (size_t i = 0; i < n; ++i) {
    patterns[0][i] = 67;
    patterns[1][i] = (i * 37 + 11) % 101;
    patterns[2][i] = i % 2 == 0 ? 0 : 13;
    patterns[4][i] = 4099 * (i + 1);
  }
  patterns[3][n - 1] = 129;
  std::vector<Slices> slices;
  for (auto& pattern : patterns)
    slices.push_back(make_slices(std::move(pattern)));
  return slices;
}

std::vector<uint32_t> reductions_of(tsr_dtype dtype) {
  std::vector<uint32_t> reductions = {TSR_REDUCE_SUM, TSR_REDUCE_MIN, TSR_REDUCE_MAX};
  if (is_floating(dtype)) reductions.push_back(TSR_REDUCE_AVG);
  return reductions;
}

std::string describe(const tsr_collective& c) {
  return std::string(collective_name(c.kind)) + " " + reduce_name(c.reduce) + " " + dtype_name(c.dtype) + " " +
         std::to_string(c.num_elements) + " elements, peer " + std::to_string(c.peer) +
         (c.send == c.recv ? ", in place" : "") + ": ";
}

/// Of the expected value: a sum that is not canonical may divide every operand by n, and round it, before it adds.
double tolerance_of(const CommRank& rank, const tsr_collective& collective) {
  if (collective.reduce != TSR_REDUCE_AVG || (rank.caps().flags & TSR_COMM_CANONICAL_SUM)) return 0;
  const int bits = collective.dtype == TSR_BF16  ? 8
                   : collective.dtype == TSR_F16 ? 11
                   : collective.dtype == TSR_F32 ? 24
                                                 : 53;
  return std::ldexp(rank.num_ranks(), -bits);
}

/// Submits, waits, and compares `actual` with what `expected_at` gives. Not for what is not claimed.
void run_and_compare(CommRank& rank, const tsr_collective& collective, const TypedBuffer& actual,
                     const std::function<double(uint64_t)>& expected_at) {
  if (!is_claimed(rank.caps(), collective)) return;
  rank.comm().submit(collective);
  rank.synchronize();
  const TypedBuffer expected(actual.dtype(), actual.num_elements(), expected_at);
  EXPECT_EQ(actual.difference(expected, tolerance_of(rank, collective)), "")
      << describe(collective) << "rank " << rank.rank();
}

void check_all_reduce(CommRank& rank, tsr_dtype dtype, uint32_t reduce, uint64_t num_elements, bool in_place) {
  TypedBuffer send(dtype, num_elements, values_of(rank.rank()));
  TypedBuffer recv(dtype, num_elements);
  TypedBuffer& result = in_place ? send : recv;
  auto collective = make_collective(TSR_COLL_ALL_REDUCE, dtype, num_elements, send.data(), result.data());
  collective.reduce = reduce;
  run_and_compare(rank, collective, result, [&](uint64_t i) { return reduced_at(reduce, dtype, rank.num_ranks(), i); });
}

void check_reduce(CommRank& rank, tsr_dtype dtype, uint32_t reduce, uint64_t num_elements, int root, bool in_place) {
  TypedBuffer send(dtype, num_elements, values_of(rank.rank()));
  TypedBuffer recv(dtype, num_elements);
  const bool is_root = rank.rank() == root;
  TypedBuffer& result = in_place ? send : recv;
  auto collective =
      make_collective(TSR_COLL_REDUCE, dtype, num_elements, send.data(), is_root ? result.data() : nullptr);
  collective.reduce = reduce;
  collective.peer = root;
  if (is_root)
    return run_and_compare(rank, collective, result,
                           [&](uint64_t i) { return reduced_at(reduce, dtype, rank.num_ranks(), i); });
  run_and_compare(rank, collective, send, values_of(rank.rank()));  // untouched
}

void check_broadcast(CommRank& rank, tsr_dtype dtype, uint64_t num_elements, int root, bool in_place) {
  TypedBuffer send(dtype, num_elements, values_of(root));
  TypedBuffer recv(dtype, num_elements);
  const bool is_root = rank.rank() == root;
  TypedBuffer& result = is_root && in_place ? send : recv;
  auto collective =
      make_collective(TSR_COLL_BROADCAST, dtype, num_elements, is_root ? send.data() : nullptr, result.data());
  collective.peer = root;
  run_and_compare(rank, collective, result, values_of(root));
}

void check_reduce_scatter(CommRank& rank, tsr_dtype dtype, uint32_t reduce, const Slices& slices, bool in_place) {
  const size_t r = static_cast<size_t>(rank.rank());
  const uint64_t begin = slices.offsets[r], num_elements = slices.counts[r];
  TypedBuffer send(dtype, slices.total(), values_of(rank.rank()));
  TypedBuffer recv(dtype, num_elements);
  auto collective =
      make_collective(TSR_COLL_REDUCE_SCATTER, dtype, 0, send.data(), in_place ? send.at(begin) : recv.data());
  collective.reduce = reduce;
  collective.counts = slices.counts.data();
  const auto reduced = [&](uint64_t i) { return reduced_at(reduce, dtype, rank.num_ranks(), i); };
  if (!in_place) return run_and_compare(rank, collective, recv, [&](uint64_t i) { return reduced(begin + i); });
  run_and_compare(rank, collective, send, [&](uint64_t i) {
    return i >= begin && i < begin + num_elements ? reduced(i) : value_at(rank.rank(), i);
  });
}

/// Element i of rank r's contribution is value_at(r, i).
double gathered_at(const Slices& slices, uint64_t i) {
  const auto next = std::upper_bound(slices.offsets.begin(), slices.offsets.end(), i);
  const auto owner = next - slices.offsets.begin() - 1;
  return value_at(static_cast<int>(owner), i - slices.offsets[static_cast<size_t>(owner)]);
}

void check_all_gather(CommRank& rank, tsr_dtype dtype, const Slices& slices, bool in_place) {
  const size_t r = static_cast<size_t>(rank.rank());
  TypedBuffer send(dtype, slices.counts[r], values_of(rank.rank()));
  TypedBuffer recv(dtype, slices.total(), [](uint64_t) { return 99; });
  const void* source = send.data();
  if (in_place) {
    source = recv.at(slices.offsets[r]);
    for (uint64_t i = 0; i < slices.counts[r]; ++i)
      put_element(dtype, recv.at(slices.offsets[r] + i), value_at(rank.rank(), i));
  }
  auto collective = make_collective(TSR_COLL_ALL_GATHER, dtype, 0, source, recv.data());
  collective.counts = slices.counts.data();
  run_and_compare(rank, collective, recv, [&](uint64_t i) { return gathered_at(slices, i); });
}

uint64_t all_to_all_count(int from, int to) {
  return static_cast<uint64_t>((from * 5 + to * 11) % 7) * 50;
}

using Conformance = CommunicatorTest;

TEST_P(Conformance, AllReduce) {
  TESSERA_USES(kSum);
  run_ranks(spec(), [](CommRank& rank) {
    for (tsr_dtype dtype : rank.dtypes())
      for (uint32_t reduce : reductions_of(dtype))
        for (uint64_t num_elements : kCounts)
          for (bool in_place : {false, true})
            check_all_reduce(rank, dtype, reduce, num_elements, in_place);
    for (tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_I8})
      check_all_reduce(rank, dtype, TSR_REDUCE_SUM, kLargeCount, true);
  });
}

TEST_P(Conformance, Reduce) {
  TESSERA_USES({TSR_COLL_REDUCE, TSR_REDUCE_SUM});
  run_ranks(spec(), [](CommRank& rank) {
    for (int root = 0; root < rank.num_ranks(); ++root)
      for (uint64_t num_elements : kCounts)
        for (bool in_place : {false, true})
          check_reduce(rank, TSR_F32, TSR_REDUCE_SUM, num_elements, root, in_place);
    for (tsr_dtype dtype : rank.dtypes())
      for (uint32_t reduce : reductions_of(dtype))
        check_reduce(rank, dtype, reduce, 515, rank.num_ranks() - 1, true);
    check_reduce(rank, TSR_F16, TSR_REDUCE_AVG, kLargeCount, 0, false);
  });
}

TEST_P(Conformance, Broadcast) {
  TESSERA_USES({TSR_COLL_BROADCAST});
  run_ranks(spec(), [](CommRank& rank) {
    for (int root = 0; root < rank.num_ranks(); ++root)
      for (uint64_t num_elements : kCounts)
        for (bool in_place : {false, true})
          check_broadcast(rank, TSR_F32, num_elements, root, in_place);
    for (tsr_dtype dtype : rank.dtypes())
      check_broadcast(rank, dtype, 515, rank.num_ranks() - 1, true);
    check_broadcast(rank, TSR_BF16, kLargeCount, 0, true);
  });
}

TEST_P(Conformance, ReduceScatter) {
  TESSERA_USES({TSR_COLL_REDUCE_SCATTER, TSR_REDUCE_SUM});
  run_ranks(spec(), [](CommRank& rank) {
    for (const Slices& slices : slice_patterns(rank.num_ranks()))
      for (bool in_place : {false, true})
        check_reduce_scatter(rank, TSR_F32, TSR_REDUCE_SUM, slices, in_place);
    const Slices uneven = slice_patterns(rank.num_ranks())[1];
    for (tsr_dtype dtype : rank.dtypes())
      for (uint32_t reduce : reductions_of(dtype))
        check_reduce_scatter(rank, dtype, reduce, uneven, true);
  });
}

TEST_P(Conformance, AllGather) {
  TESSERA_USES({TSR_COLL_ALL_GATHER});
  run_ranks(spec(), [](CommRank& rank) {
    for (const Slices& slices : slice_patterns(rank.num_ranks()))
      for (bool in_place : {false, true})
        check_all_gather(rank, TSR_F32, slices, in_place);
    const Slices uneven = slice_patterns(rank.num_ranks())[1];
    for (tsr_dtype dtype : rank.dtypes())
      check_all_gather(rank, dtype, uneven, false);
  });
}

TEST_P(Conformance, EqualCountsWithoutAnArray) {
  TESSERA_USES({TSR_COLL_REDUCE_SCATTER, TSR_REDUCE_SUM}, {TSR_COLL_ALL_GATHER});
  run_ranks(spec(), [](CommRank& rank) {
    const uint64_t n = static_cast<uint64_t>(rank.num_ranks()), r = static_cast<uint64_t>(rank.rank()), c = 1021;
    TypedBuffer all(TSR_F32, n * c, values_of(rank.rank())), slice(TSR_F32, c);
    auto scatter = make_collective(TSR_COLL_REDUCE_SCATTER, TSR_F32, c, all.data(), slice.data());
    scatter.reduce = TSR_REDUCE_SUM;
    const auto reduced = [&](uint64_t i) { return reduced_at(TSR_REDUCE_SUM, TSR_F32, rank.num_ranks(), i); };
    run_and_compare(rank, scatter, slice, [&](uint64_t i) { return reduced(r * c + i); });
    auto gather = make_collective(TSR_COLL_ALL_GATHER, TSR_F32, c, slice.data(), all.data());
    run_and_compare(rank, gather, all, reduced);
  });
}

TEST_P(Conformance, EqualCountsWithoutAnArrayInAllToAll) {
  TESSERA_USES({TSR_COLL_ALL_TO_ALL});
  run_ranks(spec(), [](CommRank& rank) {
    const uint64_t n = static_cast<uint64_t>(rank.num_ranks()), r = static_cast<uint64_t>(rank.rank()), c = 1021;
    TypedBuffer send(TSR_F32, n * c, values_of(rank.rank())), recv(TSR_F32, n * c);
    const auto to_all = make_collective(TSR_COLL_ALL_TO_ALL, TSR_F32, c, send.data(), recv.data());
    run_and_compare(rank, to_all, recv, [&](uint64_t i) { return value_at(static_cast<int>(i / c), r * c + i % c); });
  });
}

TEST_P(Conformance, AllToAll) {
  TESSERA_USES({TSR_COLL_ALL_TO_ALL});
  run_ranks(spec(), [](CommRank& rank) {
    std::vector<uint64_t> sent, received;
    for (int peer = 0; peer < rank.num_ranks(); ++peer) {
      sent.push_back(all_to_all_count(rank.rank(), peer));
      received.push_back(all_to_all_count(peer, rank.rank()));
    }
    const Slices from = make_slices(sent), to = make_slices(received);
    for (tsr_dtype dtype : rank.dtypes()) {
      // Element i of the slice from a to b is value_at(a + 3b, i).
      const auto element = [&](const Slices& slices, bool is_sent, uint64_t i) {
        const auto peer =
            std::upper_bound(slices.offsets.begin(), slices.offsets.end(), i) - slices.offsets.begin() - 1;
        const int other = static_cast<int>(peer), self = rank.rank();
        return value_at(is_sent ? self + 3 * other : other + 3 * self, i - slices.offsets[static_cast<size_t>(peer)]);
      };
      TypedBuffer send(dtype, from.total(), [&](uint64_t i) { return element(from, true, i); });
      TypedBuffer recv(dtype, to.total());
      auto collective = make_collective(TSR_COLL_ALL_TO_ALL, dtype, 0, send.data(), recv.data());
      collective.counts = sent.data();
      collective.recv_counts = received.data();
      run_and_compare(rank, collective, recv, [&](uint64_t i) { return element(to, false, i); });
    }
  });
}

TESSERA_OVER(transports, Conformance, kGroupSizes);

// Under sanitizers, where each element takes ten times as long, a third is just longer than a piece.
#ifdef TESSERA_IS_SANITIZED
constexpr uint64_t kHugeCount = 400'009;
#else
constexpr uint64_t kHugeCount = 1'000'003;
#endif

/// A third of kHugeCount for each rank, but for a few elements.
Slices huge_slices() {
  return make_slices({kHugeCount / 3 + 5, kHugeCount / 3, kHugeCount - 2 * (kHugeCount / 3) - 5});
}

// Longer than all that a communicator does at once: each rank's slice is several pieces of it, as those of models are.
using HugeConformance = CommunicatorTest;

TEST_P(HugeConformance, AllReduce) {
  TESSERA_USES(kSum);
  run_ranks(spec(), [](CommRank& rank) { check_all_reduce(rank, TSR_F32, TSR_REDUCE_SUM, kHugeCount, true); });
}

TEST_P(HugeConformance, Reduce) {
  TESSERA_USES({TSR_COLL_REDUCE, TSR_REDUCE_AVG, TSR_BF16});
  run_ranks(spec(), [](CommRank& rank) { check_reduce(rank, TSR_BF16, TSR_REDUCE_AVG, kHugeCount, 1, false); });
}

TEST_P(HugeConformance, ReduceScatter) {
  TESSERA_USES({TSR_COLL_REDUCE_SCATTER, TSR_REDUCE_SUM});
  run_ranks(spec(), [](CommRank& rank) { check_reduce_scatter(rank, TSR_F32, TSR_REDUCE_SUM, huge_slices(), true); });
}

TEST_P(HugeConformance, BroadcastAndAllGather) {
  TESSERA_USES({TSR_COLL_BROADCAST}, {TSR_COLL_ALL_GATHER, 0, TSR_BF16});
  run_ranks(spec(), [](CommRank& rank) {
    check_broadcast(rank, TSR_F32, kHugeCount, 2, true);
    check_all_gather(rank, TSR_BF16, huge_slices(), false);
  });
}

constexpr int kThree[] = {3};
TESSERA_OVER(transports, HugeConformance, kThree);

}  // namespace
}  // namespace tessera::testing
