// Conformance of communicators, 2: the canonical sum. Any cut of a buffer into calls, and every reducing collective,
// gives the bits of the balanced tree over the ranks.
#include <cmath>
#include <random>

#include "conformance/communicators.h"

namespace tessera::testing {
namespace {

constexpr uint64_t kNumElements = 5003;

/// Values over many magnitudes, so that nearly every other order of additions has other bits.
TypedBuffer random_values(tsr_dtype dtype, int rank) {
  std::mt19937 generator(static_cast<uint32_t>(rank) + 1);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  return TypedBuffer(dtype, kNumElements,
                     [&](uint64_t i) { return std::ldexp(mantissa(generator), static_cast<int>(i % 12) - 6); });
}

template <class Sum>
Sum tree(const std::vector<TypedBuffer>& operands, uint64_t i, size_t begin, size_t end) {
  if (end - begin == 1) return static_cast<Sum>(get_element(operands[begin].dtype(), operands[begin].at(i)));
  size_t half = 1;
  while (half * 2 < end - begin)
    half *= 2;
  return tree<Sum>(operands, i, begin, begin + half) + tree<Sum>(operands, i, begin + half, end);
}

TypedBuffer canonical(const std::vector<TypedBuffer>& operands, uint32_t reduce) {
  const size_t n = operands.size();
  const tsr_dtype dtype = operands[0].dtype();
  return TypedBuffer(dtype, kNumElements, [&](uint64_t i) -> double {
    const double divisor = reduce == TSR_REDUCE_AVG ? static_cast<double>(n) : 1;
    if (dtype == TSR_F64) return tree<double>(operands, i, 0, n) / divisor;
    return static_cast<double>(tree<float>(operands, i, 0, n) / static_cast<float>(divisor));
  });
}

std::vector<TypedBuffer> operands_of_all(tsr_dtype dtype, int num_ranks) {
  std::vector<TypedBuffer> operands;
  for (int rank = 0; rank < num_ranks; ++rank)
    operands.push_back(random_values(dtype, rank));
  return operands;
}

/// Reduces `buffer` in place, in calls of `num_elements_per_call`.
void all_reduce_in_calls(CommRank& rank, TypedBuffer& buffer, uint32_t reduce, uint64_t num_elements_per_call) {
  for (uint64_t begin = 0; begin < kNumElements; begin += num_elements_per_call) {
    auto collective =
        make_collective(TSR_COLL_ALL_REDUCE, buffer.dtype(), std::min(num_elements_per_call, kNumElements - begin),
                        buffer.at(begin), buffer.at(begin));
    collective.reduce = reduce;
    rank.comm().submit(collective);
  }
  rank.synchronize();
}

/// Each rank reduces a slice of its own (uneven ones) and all are gathered again.
void reduce_scatter_and_gather(CommRank& rank, TypedBuffer& buffer, uint32_t reduce) {
  const uint64_t n = static_cast<uint64_t>(rank.num_ranks());
  std::vector<uint64_t> counts(n, kNumElements / (n + 1));
  counts[0] = kNumElements - (n - 1) * counts[0];
  const uint64_t begin = rank.rank() == 0 ? 0 : counts[0] + static_cast<uint64_t>(rank.rank() - 1) * counts[1];
  auto scatter = make_collective(TSR_COLL_REDUCE_SCATTER, buffer.dtype(), 0, buffer.data(), buffer.at(begin));
  scatter.reduce = reduce;
  scatter.counts = counts.data();
  rank.comm().submit(scatter);
  auto gather = make_collective(TSR_COLL_ALL_GATHER, buffer.dtype(), 0, buffer.at(begin), buffer.data());
  gather.counts = counts.data();
  rank.comm().submit(gather);
  rank.synchronize();
}

void reduce_to_last(CommRank& rank, TypedBuffer& buffer, uint32_t reduce) {
  auto collective = make_collective(TSR_COLL_REDUCE, buffer.dtype(), kNumElements, buffer.data(), buffer.data());
  collective.reduce = reduce;
  collective.peer = rank.num_ranks() - 1;
  rank.comm().submit(collective);
  rank.synchronize();
}

using CanonicalSum = CommunicatorTest;

TEST_P(CanonicalSum, DoesNotDependOnTheCutNorOnTheCollective) {
  if (!(caps().flags & TSR_COMM_CANONICAL_SUM)) GTEST_SKIP() << plugin() << " does not promise the canonical sum";
  run_ranks(spec(), [](CommRank& rank) {
    for (tsr_dtype dtype : {TSR_F32, TSR_F64, TSR_F16, TSR_BF16}) {
      for (uint32_t reduce : {TSR_REDUCE_SUM, TSR_REDUCE_AVG}) {
        const auto is_there = [&](uint32_t kind) { return claims(rank.caps(), {kind, reduce, dtype}); };
        const TypedBuffer expected = canonical(operands_of_all(dtype, rank.num_ranks()), reduce);
        for (uint64_t num_elements_per_call : {kNumElements, uint64_t{997}, uint64_t{64}}) {
          if (!is_there(TSR_COLL_ALL_REDUCE)) break;
          TypedBuffer buffer = random_values(dtype, rank.rank());
          all_reduce_in_calls(rank, buffer, reduce, num_elements_per_call);
          EXPECT_EQ(buffer.difference(expected), "") << "all_reduce in calls of " << num_elements_per_call;
        }
        if (is_there(TSR_COLL_REDUCE_SCATTER) && is_there(TSR_COLL_ALL_GATHER)) {
          TypedBuffer scattered = random_values(dtype, rank.rank());
          reduce_scatter_and_gather(rank, scattered, reduce);
          EXPECT_EQ(scattered.difference(expected), "") << "reduce_scatter and all_gather";
        }
        if (!is_there(TSR_COLL_REDUCE)) continue;
        TypedBuffer reduced = random_values(dtype, rank.rank());
        reduce_to_last(rank, reduced, reduce);
        if (rank.rank() == rank.num_ranks() - 1) {
          EXPECT_EQ(reduced.difference(expected), "") << "reduce";
        }
      }
    }
  });
}

// What the test above can tell apart.
TEST(CanonicalSumReference, DiffersFromTheSumInRankOrder) {
  const std::vector<TypedBuffer> operands = operands_of_all(TSR_F32, 4);
  const TypedBuffer chain(TSR_F32, kNumElements, [&](uint64_t i) {
    float sum = 0;
    for (const TypedBuffer& operand : operands)
      sum += static_cast<float>(get_element(TSR_F32, operand.at(i)));
    return static_cast<double>(sum);
  });
  EXPECT_NE(canonical(operands, TSR_REDUCE_SUM).difference(chain), "");
}

TESSERA_OVER(transports, CanonicalSum, kGroupSizes);

}  // namespace
}  // namespace tessera::testing
