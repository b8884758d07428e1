// The generator of combinations, against counting by hand.
#include "support/covering.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <tuple>

namespace tessera::testing {
namespace {

using Pairs = std::set<std::tuple<size_t, size_t, size_t, size_t>>;

Pairs pairs_in(const std::vector<Space::Row>& rows) {
  Pairs pairs;
  for (const Space::Row& row : rows)
    for (size_t a = 0; a < row.size(); ++a)
      for (size_t b = a + 1; b < row.size(); ++b)
        pairs.emplace(a, row[a], b, row[b]);
  return pairs;
}

const std::vector<Factor> kFactors = {{"mode", {"none", "slices", "owners"}},
                                      {"wrap", {"unit", "root"}},
                                      {"partition", {"even", "turns"}},
                                      {"ranks", {"2", "3", "4"}},
                                      {"clip", {"on", "off"}}};
const std::vector<Rule> kRules = {{"mode", {"none", "owners"}, "wrap", {"unit"}},
                                  {"mode", {"none", "slices"}, "partition", {"even"}}};

TEST(Covering, WithoutRulesAllIsTheProduct) {
  EXPECT_EQ(Space(kFactors, {}).all().size(), 3u * 2 * 2 * 3 * 2);
}

TEST(Covering, RulesTakeCombinationsOut) {
  const Space space(kFactors, kRules);
  // mode with its own option: none 1, slices 2, owners 2.
  EXPECT_EQ(space.all().size(), 5u * 3 * 2);
  for (const Space::Row& row : space.all()) {
    EXPECT_TRUE(space.value(row, "wrap") == "unit" || space.value(row, "mode") == "slices");
    EXPECT_TRUE(space.value(row, "partition") == "even" || space.value(row, "mode") == "owners");
  }
}

TEST(Covering, FixedFactorsKeepTheirFirstValue) {
  const Space space(kFactors, kRules);
  const auto rows = space.all({"ranks", "clip"});
  EXPECT_EQ(rows.size(), 5u);
  for (const Space::Row& row : rows) {
    EXPECT_EQ(space.value(row, "ranks"), "2");
    EXPECT_TRUE(space.allows(row));
  }
  EXPECT_FALSE(space.allows({0, 1, 0, 0, 0}));
}

TEST(Covering, EveryPairThatExistsIsShown) {
  for (const auto& rules : {std::vector<Rule>{}, kRules}) {
    const Space space(kFactors, rules);
    EXPECT_EQ(pairs_in(space.covering_pairs()), pairs_in(space.all()));
    EXPECT_LT(space.covering_pairs().size(), space.all().size() / 2);
    EXPECT_EQ(space.covering_pairs(), space.covering_pairs());
  }
}

TEST(Covering, RowsReadBack) {
  const Space space(kFactors, kRules);
  EXPECT_EQ(space.find("ranks", "4"), 2u);
  EXPECT_THROW(space.find("ranks", "5"), std::invalid_argument);
  EXPECT_EQ(space.text({1, 1, 0, 2, 0}), "mode=slices wrap=root partition=even ranks=4 clip=on");
}

TEST(Covering, AFactorWithFewerValuesKeepsTheRules) {
  const Space space = Space(kFactors, kRules).with("ranks", {"3"}).with("mode", {"owners"});
  EXPECT_EQ(space.all().size(), 2u * 2);  // partition and clip
}

TEST(Covering, RulesNameFactorsThatAreThere) {
  EXPECT_THROW(Space(kFactors, {{"modes", {"none"}, "wrap", {"unit"}}}), std::invalid_argument);
  EXPECT_THROW(Space(kFactors, {}).with("modes", {"none"}), std::invalid_argument);
}

}  // namespace
}  // namespace tessera::testing
