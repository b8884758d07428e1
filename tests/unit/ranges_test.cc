// Ranges of elements: rounding, overlap, even division.
#include "tessera/ranges.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Ranges, RoundUpToTheNextMultipleAndKeepMultiples) {
  EXPECT_EQ(divide_up<uint64_t>(0, 32), 0u);
  EXPECT_EQ(divide_up<uint64_t>(33, 32), 2u);
  EXPECT_EQ(round_up<uint64_t>(1, 32), 32u);
  EXPECT_EQ(round_up<uint64_t>(64, 32), 64u);
}

TEST(Ranges, NeighborsDoNotOverlap) {
  const ElementRange range{10, 20};
  EXPECT_TRUE(range.overlaps({19, 30}));
  EXPECT_FALSE(range.overlaps({20, 30}));
  EXPECT_FALSE(range.overlaps({0, 10}));
  EXPECT_EQ(range.intersection({15, 30}), (ElementRange{15, 20}));
  EXPECT_TRUE(range.intersection({20, 30}).is_empty());
  EXPECT_TRUE(range.intersection({25, 30}).is_empty());
}

TEST(Ranges, DivideEvenlyAtMultiplesOf64) {
  std::vector<uint64_t> offsets;
  divide_evenly(1000, 3, offsets);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 384, 704, 1000}));
  divide_evenly(10, 3, offsets);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 10, 10, 10}));
}

}  // namespace
}  // namespace tessera
