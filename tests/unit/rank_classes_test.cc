// Which ranks are planned for which.
#include "program/rank_classes.h"

#include <gtest/gtest.h>

namespace tessera::testing {
using namespace host;
namespace {

tsr_strategy_interface table(uint32_t (*depends_on_coordinate)(tsr_strategy*) noexcept) {
  tsr_strategy_interface table{};
  table.struct_size = sizeof table;
  table.depends_on_coordinate = depends_on_coordinate;
  return table;
}
const tsr_strategy_interface kSilent = table(nullptr);
const tsr_strategy_interface kSame = table([](tsr_strategy*) noexcept { return 0u; });
const tsr_strategy_interface kDifferent = table([](tsr_strategy*) noexcept { return 1u; });

using Members = std::map<int, std::vector<int>>;

TEST(RankClasses, OneWithoutAStrategyThatDependsOnItsCoordinate) {
  const Mesh mesh({{"replicate", 2}, {"shard", 2}});
  const StrategyOnAxis strategies[] = {{"a", 0, &kSilent, nullptr}, {"b", 1, &kSame, nullptr}};
  const RankClasses classes(mesh, strategies);
  EXPECT_EQ(classes.members(), (Members{{0, {0, 1, 2, 3}}}));
  EXPECT_EQ(classes.representative(3), 0);
}

TEST(RankClasses, OnePerCoordinateOfTheAxesThatMatter) {
  const Mesh mesh({{"pp", 2}, {"dp", 3}});
  const StrategyOnAxis strategies[] = {{"pipeline", 0, &kDifferent, nullptr}, {"ddp", 1, &kSame, nullptr}};
  const RankClasses classes(mesh, strategies);
  EXPECT_EQ(classes.members(), (Members{{0, {0, 1, 2}}, {3, {3, 4, 5}}}));
  EXPECT_EQ(classes.representative(5), 3);
}

TEST(RankClasses, ATableThatEndsBeforeTheFunctionIsTakenAsTheSame) {
  tsr_strategy_interface old = kDifferent;
  old.struct_size = offsetof(tsr_strategy_interface, depends_on_coordinate);
  const StrategyOnAxis strategies[] = {{"old", 0, &old, nullptr}};
  EXPECT_EQ(RankClasses(Mesh({{"dp", 4}}), strategies).members().size(), 1u);
}

TEST(RankClasses, OnePerProgramWhereProgramsAreKnown) {
  const int programs[] = {7, 3, 5, 5, 5};
  const auto classes = RankClasses::of_programs(Mesh({{"dp", 5}}), programs);
  EXPECT_EQ(classes.members(), (Members{{0, {0}}, {1, {1}}, {2, {2, 3, 4}}}));
  EXPECT_EQ(classes.representative(4), 2);
}

TEST(RankClasses, WitnessesAreTheSecondAndTheLastOfEachAxis) {
  const int programs[] = {7, 7, 7, 7, 7, 8};
  const Mesh mesh({{"dp", 6}});
  EXPECT_EQ(RankClasses::with_witnesses(mesh, RankClasses::of_programs(mesh, programs)).members(),
            (Members{{0, {0, 2, 3, 4}}, {1, {1}}, {5, {5}}}));
  const Mesh both({{"dp", 3}, {"tp", 3}});
  const std::vector<int> equal(9);
  EXPECT_EQ(RankClasses::with_witnesses(both, RankClasses::of_programs(both, equal)).members().size(), 9u);
}

// Stage 1 has one program, stage 0 has two: if ranks 3 to 5 were one class, rank 1 would send to rank 3, which
// exchanges messages with rank 0 and not with 1.
TEST(RankClasses, CoordinatesAreOneIfTheyAreOnAllOtherAxes) {
  const int programs[] = {0, 1, 1, 2, 2, 2};
  const auto classes = RankClasses::of_programs(Mesh({{"pp", 2}, {"dp", 3}}), programs);
  EXPECT_EQ(classes.members(), (Members{{0, {0}}, {1, {1, 2}}, {3, {3}}, {4, {4, 5}}}));
}

TEST(RankClasses, WithoutStrategiesEachRankIsItsOwn) {
  EXPECT_EQ(RankClasses(Mesh({{"a", 2}, {"b", 2}})).members(), (Members{{0, {0}}, {1, {1}}, {2, {2}}, {3, {3}}}));
}

TEST(RankClasses, ARankAloneIsItsOwn) {
  EXPECT_EQ(RankClasses(Mesh(), {}).members(), (Members{{0, {0}}}));
}

}  // namespace
}  // namespace tessera::testing
