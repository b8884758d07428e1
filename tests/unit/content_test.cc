// What value numbers remember of the dtypes that a value went through, and what findings call them.
#include "verify/model/content.h"

#include <gtest/gtest.h>

#include "support/program_builder.h"
#include "verify/model/rank_walk.h"

namespace tessera::host {
namespace {

Content gradient(std::initializer_list<tsr_dtype> dtypes = {}) {
  Content content{ContentKind::gradient};
  content.index = 3;
  for (const tsr_dtype dtype : dtypes)
    content.round_to(dtype);
  return content;
}

tsr_dtype accepted(Content content, tsr_dtype dtype) {
  ContentParts parts{{0, 8, content}};
  accept_rounding(parts, dtype);
  return parts.front().content.rounded;
}

TEST(Text, NamesTheSlotOfWhatASegmentKeeps) {
  Model model;
  model.segments.emplace_back().name = "h.0.fc";
  Content kept{ContentKind::context};
  kept.index = 0;
  kept.part = 1;
  kept.micro_batch = 2;
  EXPECT_EQ(content_text(kept, model, {}), "c1 of h.0.fc mb=2");
  kept.kind = ContentKind::saved;
  EXPECT_EQ(content_text(kept, model, {}), "s1 of h.0.fc mb=2");
}

TEST(Rounding, IsTheDtypeOfFewerBits) {
  EXPECT_EQ(gradient().rounded, 0u);
  EXPECT_EQ(gradient({TSR_F32, TSR_F64}).rounded, 0u);
  EXPECT_EQ(gradient({TSR_BF16, TSR_F32, TSR_BF16}).rounded, TSR_BF16);
  EXPECT_EQ(Content{ContentKind::zero}.rounded, 0u);
}

TEST(Rounding, ToTwoDtypesIsThatOfNone) {
  EXPECT_EQ(accepted(gradient({TSR_BF16}), TSR_BF16), 0u);
  EXPECT_EQ(accepted(gradient({TSR_F16}), TSR_BF16), TSR_F16);
  for (const tsr_dtype dtype : {TSR_F16, TSR_BF16}) {
    EXPECT_EQ(accepted(gradient({TSR_F16, TSR_BF16}), dtype), kSeveralDtypes);
    EXPECT_EQ(accepted(gradient({TSR_F16, TSR_BF16, TSR_F16}), dtype), kSeveralDtypes);
  }
}

TEST(Factor, IsOneButForRounding) {
  Content third = gradient();
  third.scale_by(1.0 / 3);
  third.scale_by(3);
  EXPECT_EQ(third.factor, 1);
  Content close = gradient();
  close.scale_by(1.00001);
  EXPECT_NE(close.factor, 1);
}

TEST(Rounding, OfASumIsThatOfItsAddends) {
  AddendSets sets;
  const uint32_t first = sets.with(0, 0), second = sets.with(0, 1);
  const auto rounded = [&](Content a, Content b) {
    a.addends = first;
    b.addends = second;
    const auto sum = sum_of(a, b, sets);
    EXPECT_TRUE(sum);
    return sum ? sum->rounded : 0;
  };
  EXPECT_EQ(rounded(gradient(), gradient()), 0u);
  EXPECT_EQ(rounded(gradient({TSR_BF16}), gradient()), TSR_BF16);
  EXPECT_EQ(rounded(gradient(), gradient({TSR_BF16})), TSR_BF16);
  EXPECT_EQ(rounded(gradient({TSR_BF16}), gradient({TSR_BF16})), TSR_BF16);
  EXPECT_EQ(rounded(gradient({TSR_F16}), gradient({TSR_BF16})), kSeveralDtypes);
}

TEST(Rounding, OfASumToWhatIsAcceptedIsForgotten) {
  Content sum = gradient();
  sum.summed = 1;
  Content rounded = sum;
  rounded.round_to(TSR_BF16);
  EXPECT_NE(rounded, sum);
  ContentParts parts{{0, 8, rounded}};
  accept_rounding(parts, TSR_BF16);
  EXPECT_EQ(parts.front().content, sum);
}

/// What a call uses of parameters, however its operands fall into parts.
TEST(MadeOf, IsTheElementsUsed) {
  AddendSets sets;
  const auto made_of_parts = [&](std::initializer_list<ContentPart> parts) {
    return made_of({ContentParts(parts)}, sets);
  };
  const Content whole = made_of_parts({{0, 8, gradient()}});
  ASSERT_EQ(sets.set(whole.addends).size(), 1u);
  EXPECT_EQ(sets.used(sets.set(whole.addends)[0]), (UsedElements{3, 0, 8}));
  EXPECT_EQ(made_of_parts({{4, 4, gradient()}, {0, 4, gradient()}}), whole);
  EXPECT_EQ(made_of_parts({{0, 6, gradient()}, {2, 6, gradient()}}), whole);
  EXPECT_EQ(made_of_parts({{0, 8, gradient()}, {8, 8, {ContentKind::zero}}, {16, 8, whole}}), whole);
  EXPECT_NE(made_of_parts({{0, 8, gradient().moved_by(1)}}), whole);
  EXPECT_NE(made_of_parts({{0, 3, gradient()}, {4, 4, gradient()}}), whole);
  EXPECT_EQ(made_of({}, sets).addends, 0u);

  Content own = gradient();
  own.own = 1;  // other ranks that are walked as this one have other elements there
  EXPECT_EQ(sets.used(sets.set(made_of_parts({{0, 8, own}}).addends)[0]), (UsedElements{3}));
}

TEST(HomeRuns, JoinWhatTouchesInTheHomeAndInTheParameter) {
  const Model model = testing::toy_model();
  const auto num_runs = [&](uint64_t element, uint64_t offset) {
    Home home;
    home.pieces = {{0, 0, 0, 8, 0}, {0, 0, element, 8, offset}};
    return runs_of(home, model).size();
  };
  EXPECT_EQ(num_runs(8, 8), 1u);
  EXPECT_EQ(num_runs(8, 16), 2u);
  EXPECT_EQ(num_runs(16, 8), 2u);
}

TEST(HomeTable, HasPlacesOfItsOwnParametersAlone) {
  const Model model = testing::toy_model();
  const Mesh mesh({{"dp", 2}});
  Program program = testing::empty_program(model, mesh);
  Home home{program.next_id++, "first", 0, {{0, 0, 0, 64, 0}}, 64, {}};
  home.roles[TSR_HOME_VALUE] = {testing::persistent(program, "first", 64), 0, 64};
  program.homes = {home};
  KeptBuffers buffers;
  const HomeTable table(program, buffers);
  const auto own = table.place_of(0, 10);
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->num_elements, 54u);
  EXPECT_FALSE(table.place_of(1, 10).has_value());
  EXPECT_FALSE(table.place_of(0, 64).has_value());
  EXPECT_EQ(table.num_missing(1, 10), UINT64_MAX);
}

}  // namespace
}  // namespace tessera::host
