// The clocks of hosts: their offsets are found to within the stated error.
#include "train/profile/clocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "exec/record/step_times.h"
#include "launch/memory_store.h"
#include "support/patience.h"

namespace tessera::testing {
using namespace host;
namespace {

/// Ranks whose clocks are ahead of rank 0's by so much; ranks of one host have one clock.
std::vector<ClockOffset> compare(const std::vector<std::pair<std::string, int64_t>>& ranks) {
  MemoryStore store;
  std::vector<ClockOffset> offsets(ranks.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      const Clock clock = {ranks[rank].first, [ahead = ranks[rank].second] { return monotonic_ns() + ahead; }};
      offsets[rank] = compare_clocks(store, static_cast<int>(rank), static_cast<int>(ranks.size()), kPatienceMs, clock);
    });
  for (std::thread& thread : threads)
    thread.join();
  return offsets;
}

TEST(Clocks, OfOtherHostsAreComparedWithRankZeros) {
  constexpr int64_t kHour = 3'600'000'000'000;
  const auto offsets = compare({{"a", 0}, {"a", 0}, {"b", kHour}, {"c", -kHour / 7}});
  EXPECT_EQ(offsets[1].offset_ns, 0);
  EXPECT_EQ(offsets[1].error_ns, 0);
  for (const auto& [rank, ahead] : {std::pair(2, kHour), {3, -kHour / 7}}) {
    EXPECT_GT(offsets[rank].error_ns, 0);
    EXPECT_LE(std::abs(offsets[rank].offset_ns + ahead), offsets[rank].error_ns) << "rank " << rank;
  }
  EXPECT_EQ(offsets[0].offset_ns, 0);
  EXPECT_EQ(offsets[0].error_ns, std::max(offsets[2].error_ns, offsets[3].error_ns));
}

TEST(Clocks, OfOneHostAreOne) {
  const Clock clock = own_clock(), again = own_clock();
  EXPECT_EQ(clock.name, again.name);
  const int64_t before = clock.now_ns();
  EXPECT_GE(again.now_ns(), before);
  for (const ClockOffset& offset : compare({{clock.name, 0}, {again.name, 0}}))
    EXPECT_EQ(offset.error_ns, 0);
}

}  // namespace
}  // namespace tessera::testing
