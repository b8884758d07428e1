#include "mesh/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/range_set.h"
#include "support/expect_error.h"

namespace tessera::testing {
using namespace host;
namespace {

const Mesh kMesh({{"pp", 2, TSR_SPLITS_LAYERS}, {"dp", 3, TSR_SPLITS_BATCH}, {"tp", 2, TSR_SPLITS_TENSORS}});

TEST(Mesh, RanksAndCoordinatesAreInverse) {
  EXPECT_EQ(kMesh.num_ranks(), 12);
  for (int rank = 0; rank < kMesh.num_ranks(); ++rank)
    EXPECT_EQ(kMesh.rank(kMesh.coordinates(rank)), rank);
  EXPECT_EQ(kMesh.coordinates(7), (Coordinates{1, 0, 1}));  // 7 = (1 * 3 + 0) * 2 + 1
}

TEST(Mesh, GroupsAreTheRanksThatDifferInOneAxis) {
  EXPECT_EQ(kMesh.members({1, {}}, {1, 2, 0}), (std::vector<int>{6, 8, 10}));
  EXPECT_EQ(kMesh.members({1, {0, 2}}, {1, 2, 0}), (std::vector<int>{6, 10}));
  EXPECT_EQ(kMesh.position({1, {0, 2}}, {1, 2, 0}), 1);
  EXPECT_EQ(kMesh.position({1, {0, 2}}, {1, 1, 0}), -1);
  EXPECT_EQ(kMesh.members({}, {0, 0, 0}).size(), 12u);
  for (const Group& group : {Group{}, Group{0, {}}, Group{1, {}}, Group{1, {1}}, Group{1, {0, 2}}, Group{2, {1}}})
    for (int rank = 0; rank < kMesh.num_ranks(); ++rank) {
      const Coordinates at = kMesh.coordinates(rank);
      const auto members = kMesh.members(group, at);
      const auto own = std::ranges::find(members, rank);
      EXPECT_EQ(kMesh.num_members(group), static_cast<int>(members.size()));
      EXPECT_EQ(kMesh.position(group, at), own == members.end() ? -1 : own - members.begin());
      for (size_t i = 0; i < members.size(); ++i)
        EXPECT_EQ(kMesh.member(group, static_cast<int>(i), at), members[i]);
    }
}

TEST(Mesh, RanksWithOnePartOfTheTensorsHaveOnePlace) {
  EXPECT_EQ(kMesh.on_axes_that_split(TSR_SPLITS_TENSORS, {1, 2, 1}), (Coordinates{0, 0, 1}));
  EXPECT_EQ(kMesh.on_axes_that_split(TSR_SPLITS_LAYERS, {1, 2, 1}), (Coordinates{1, 0, 0}));
}

TEST(Mesh, DataRanksCountBatchAxesOnly) {
  EXPECT_EQ(kMesh.num_data_ranks(), 3);
  EXPECT_EQ(kMesh.data_rank({1, 2, 1}), 2);
  EXPECT_EQ(Mesh().num_ranks(), 1);
  EXPECT_EQ(Mesh().data_rank({}), 0);
}

TEST(Mesh, RefusesWhatIsNoMesh) {
  expect_error([] { Mesh({{"dp", 0}}); }, {"dp", "0"});
  expect_error([] { Mesh({{"dp", 2}, {"dp", 2}}); }, {"dp", "twice"});
  expect_error([] { Mesh({{"world", 2}}); }, {"world"});
  expect_error([] { kMesh.axis("cp"); }, {"cp", "pp, dp, tp"});
}

TEST(RangeSet, MergesAndFindsGaps) {
  RangeSet set;
  set.add(10, 20);
  set.add(30, 40);
  EXPECT_EQ(set.gaps(0, 50), (std::vector<std::pair<uint64_t, uint64_t>>{{0, 10}, {20, 30}, {40, 50}}));
  set.add(20, 30);  // touches both
  EXPECT_TRUE(set.contains(10, 40));
  EXPECT_FALSE(set.contains(9, 11));
  EXPECT_TRUE(set.disjoint(0, 10));
  EXPECT_FALSE(set.disjoint(5, 11));
  EXPECT_TRUE(set.disjoint(15, 15));
  set.add(0, 100);
  EXPECT_TRUE(set.contains(0, 100));
}

}  // namespace
}  // namespace tessera::testing
