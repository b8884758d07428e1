// The canonical reduction of n operands: the order of its additions, its independence of cuts, aliases, special values.
#include "tessera/canonical_sum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/expect_error.h"

namespace tessera {
namespace {

using testing::expect_error;

std::vector<std::vector<float>> random_operands(size_t num_operands, size_t num_elements) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<std::vector<float>> operands(num_operands, std::vector<float>(num_elements));
  for (auto& operand : operands)
    for (size_t i = 0; i < num_elements; ++i)
      operand[i] = std::ldexp(mantissa(generator), static_cast<int>(i % 16) - 8);
  return operands;
}

template <class T>
std::vector<const void*> pointers(const std::vector<std::vector<T>>& operands, size_t offset = 0) {
  std::vector<const void*> result;
  for (const auto& operand : operands)
    result.push_back(operand.data() + offset);
  return result;
}

TEST(CanonicalSum, IsTheTreeSplitAtTheLargestPowerOfTwo) {
  constexpr size_t kNumElements = 1500;  // more than two blocks
  const auto r = random_operands(7, kNumElements);
  const auto reduced = [&](size_t num_operands) {
    std::vector<float> out(kNumElements);
    const auto operands = pointers(r);
    reduce_range(TSR_F32, TSR_REDUCE_SUM, std::span(operands).first(num_operands), out.data(), kNumElements);
    return out;
  };
  const auto one = reduced(1), two = reduced(2), three = reduced(3), five = reduced(5), six = reduced(6),
             seven = reduced(7);
  for (size_t i = 0; i < kNumElements; ++i) {
    const float pairs = (r[0][i] + r[1][i]) + (r[2][i] + r[3][i]);
    ASSERT_EQ(one[i], r[0][i]);
    ASSERT_EQ(two[i], r[0][i] + r[1][i]);
    ASSERT_EQ(three[i], (r[0][i] + r[1][i]) + r[2][i]);
    ASSERT_EQ(five[i], pairs + r[4][i]);
    ASSERT_EQ(six[i], pairs + (r[4][i] + r[5][i]));
    ASSERT_EQ(seven[i], pairs + ((r[4][i] + r[5][i]) + r[6][i]));
  }
}

TEST(CanonicalSum, DoesNotDependOnTheCut) {
  constexpr size_t kNumElements = 2011;
  const auto operands = random_operands(5, kNumElements);
  std::vector<float> whole(kNumElements), pieces(kNumElements);
  reduce_range(TSR_F32, TSR_REDUCE_SUM, pointers(operands), whole.data(), kNumElements);
  for (size_t begin = 0, length = 1; begin < kNumElements; begin += length, length = length * 3 % 257 + 1)
    reduce_range(TSR_F32, TSR_REDUCE_SUM, pointers(operands, begin), pieces.data() + begin,
                 std::min(length, kNumElements - begin));
  EXPECT_EQ(whole, pieces);
}

TEST(CanonicalSum, MayGoIntoAnyOfItsOperands) {
  constexpr size_t kNumElements = 1300;
  for (size_t target = 0; target < 5; ++target) {
    auto operands = random_operands(5, kNumElements);
    std::vector<float> expected(kNumElements);
    reduce_range(TSR_F32, TSR_REDUCE_AVG, pointers(operands), expected.data(), kNumElements);
    reduce_range(TSR_F32, TSR_REDUCE_AVG, pointers(operands), operands[target].data(), kNumElements);
    EXPECT_EQ(operands[target], expected) << target;
  }
}

TEST(CanonicalSum, RoundsSixteenBitsOnce) {
  // 1 + 2^-9 + 2^-9: each addend alone is lost in bf16 (8 bits), both together are not.
  const std::vector<std::vector<uint16_t>> operands = {
      {float_to_bf16(1.0F)}, {float_to_bf16(0x1p-8F)}, {float_to_bf16(0x1p-8F)}};
  uint16_t sum = 0, mean = 0;
  reduce_range(TSR_BF16, TSR_REDUCE_SUM, pointers(operands), &sum, 1);
  EXPECT_EQ(bf16_to_float(sum), 1.0F + 0x1p-7F);
  reduce_range(TSR_BF16, TSR_REDUCE_AVG, pointers(operands), &mean, 1);
  EXPECT_EQ(mean, float_to_bf16((1.0F + 0x1p-7F) / 3.0F));
}

TEST(CanonicalSum, IntegersWrap) {
  const std::vector<std::vector<int8_t>> small = {{127}, {1}, {-128}, {-1}};
  int8_t result = 0;
  reduce_range(TSR_I8, TSR_REDUCE_SUM, pointers(small), &result, 1);
  EXPECT_EQ(result, -1);
  const std::vector<std::vector<int64_t>> large = {{std::numeric_limits<int64_t>::max()}, {1}};
  int64_t wrapped = 0;
  reduce_range(TSR_I64, TSR_REDUCE_SUM, pointers(large), &wrapped, 1);
  EXPECT_EQ(wrapped, std::numeric_limits<int64_t>::min());
}

TEST(CanonicalSum, MinAndMaxKeepNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> operands = {{nan, 1, -2, 5}, {1, nan, 3, -5}, {0, 2, nan, 4}};
  for (uint32_t reduce : {TSR_REDUCE_MIN, TSR_REDUCE_MAX}) {
    std::vector<float> out(4);
    reduce_range(TSR_F32, reduce, pointers(operands), out.data(), 4);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(out[2]));
    EXPECT_EQ(out[3], reduce == TSR_REDUCE_MIN ? -5.0F : 5.0F);
  }
}

TEST(CanonicalSum, RefusesWhatIsNotDefined) {
  const std::vector<std::vector<int32_t>> operands = {{1}, {2}};
  int32_t out = 0;
  expect_error([&] { reduce_range(TSR_I32, TSR_REDUCE_AVG, pointers(operands), &out, 1); }, {"not defined"});
  expect_error([&] { reduce_range(TSR_I32, 9, pointers(operands), &out, 1); }, {"9"});
  expect_error([&] { reduce_range(0, TSR_REDUCE_SUM, pointers(operands), &out, 1); }, {"dtype 0"});
}

}  // namespace
}  // namespace tessera
