// The probe of sums reveals in which order a communicator adds.
#include "exec/self_test/probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace tessera::host {
namespace {

using Order = std::vector<int>;  // of members

/// Whether adding one after another in that order gives what the probe expects.
bool passes(int num_members, const Order& order) {
  std::vector<Probe> probes;
  for (int m = 0; m < num_members; ++m)
    probes.push_back(sum_probe(m, num_members, false, false, true));
  for (uint64_t i = kSumFirstOrdered; i < kSumEnd; ++i) {
    float sum = probes[static_cast<size_t>(order[0])].before[i];
    for (size_t k = 1; k < order.size(); ++k)
      sum += probes[static_cast<size_t>(order[k])].before[i];
    if (sum != probes[0].after[i]) return false;
  }
  return true;
}

TEST(SumProbe, RevealsEveryOrder) {
  for (int n = 3; n <= 64; ++n) {
    Order order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const bool is_tree = n == 3;  // (a + b) + c
    for (int shift = 0; shift < n; ++shift) {
      EXPECT_EQ(passes(n, order), is_tree && (shift == 0)) << n << " members from " << shift;
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
    std::reverse(order.begin(), order.end());
    EXPECT_FALSE(passes(n, order)) << n << " members from the last";
  }
}

TEST(SumProbe, ExpectsNoOrderOfThoseThatClaimNone) {
  const Probe probe = sum_probe(1, 4, true, false, false);
  for (uint64_t i = 0; i < probe.after.size(); ++i)
    EXPECT_EQ(std::isnan(probe.after[i]), i >= kSumSends && i < kSumEnd) << i;
}

TEST(ReductionProbe, IsExactInSixteenBits) {
  for (const uint32_t kind : {uint32_t{TSR_COLL_ALL_REDUCE}, uint32_t{TSR_COLL_REDUCE_SCATTER}})
    for (const uint32_t reduce : {uint32_t{TSR_REDUCE_SUM}, uint32_t{TSR_REDUCE_MIN}, uint32_t{TSR_REDUCE_MAX}}) {
      const Probe narrow = reduction_probe({kind, TSR_BF16, reduce}, 3, 2000);
      const Probe wide = reduction_probe({kind, TSR_F32, reduce}, 3, 2000);
      const auto* given = reinterpret_cast<const uint16_t*>(&narrow.before[static_cast<size_t>(narrow.send)]);
      const auto* results = reinterpret_cast<const uint16_t*>(&narrow.after[static_cast<size_t>(narrow.recv)]);
      const auto value = [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); };
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(value(given[i]), wide.before[static_cast<size_t>(wide.send) + i]);
        EXPECT_EQ(value(results[i]), wide.after[static_cast<size_t>(wide.recv) + i]);
      }
    }
}

}  // namespace
}  // namespace tessera::host
