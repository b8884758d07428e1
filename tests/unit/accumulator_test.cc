// The exact sum: every addition against whole numbers of 600 bits, in any order.
#include "tessera/accumulator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cpu-device/kernels/step/sum_squares.h"

namespace tessera {
namespace {

/// A non-negative whole number, bit by bit: slow, and too plain to be wrong.
class BigNumber {
 public:
  void add(uint64_t value, size_t position) {
    for (size_t i = 0; i < 64; ++i)
      if (value >> i & 1) add_bit(position + i);
  }
  /// The square of a finite float, in units of 2^-298.
  void add_square(float value) {
    int exponent;
    const auto mantissa = static_cast<uint64_t>(std::ldexp(std::frexp(std::fabs(value), &exponent), 24));
    if (mantissa == 0) return;
    const int position = 2 * (exponent - 24) + 298;
    if (position >= 0)
      add(mantissa * mantissa, static_cast<size_t>(position));
    else
      add(mantissa * mantissa >> -position, 0);
  }
  Accumulator limbs() const {
    Accumulator result{};
    for (size_t i = 0; i < bits_.size(); ++i)
      result[1 + i / 32] += int64_t{bits_[i]} << i % 32;
    return result;
  }

 private:
  void add_bit(size_t position) {
    while (bits_[position])
      bits_[position++] = false;
    bits_[position] = true;
  }
  std::vector<bool> bits_ = std::vector<bool>(600);
};

float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Floats of all exponents, denormals and zeros of both signs among them.
std::vector<float> floats_of_all_exponents(size_t num_elements, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(num_elements);
  for (float& value : values) {
    value = float_of_bits(random());
    if (!std::isfinite(value)) value = float_of_bits(random() & 0x807fffffu);
  }
  return values;
}

std::vector<float> normal_floats(size_t num_elements, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1e-3f);
  std::vector<float> values(num_elements);
  for (float& value : values)
    value = normal(random);
  return values;
}

Accumulator reference(const std::vector<float>& values) {
  BigNumber sum;
  for (const float value : values)
    sum.add_square(value);
  return sum.limbs();
}

TEST(Accumulator, SquaresAreExact) {
  for (const auto& values : {floats_of_all_exponents(3000, 1), normal_floats(3000, 2)}) {
    Accumulator sum{};
    for (const float value : values)
      accumulate_square(sum, value);
    carry(sum);
    EXPECT_EQ(sum, reference(values));
  }
}

TEST(Accumulator, TheExtremesFit) {
  const float extremes[] = {float_of_bits(1), -float_of_bits(1), 0x1.fffffep127f, -0x1.fffffep127f, 0.0f, -0.0f,
                            0x1p-126f};
  std::vector<float> values;
  for (int i = 0; i < 2000; ++i)
    values.push_back(extremes[i % std::size(extremes)]);
  Accumulator sum{}, blocked{};
  for (const float value : values)
    accumulate_square(sum, value);
  carry(sum);
  EXPECT_EQ(sum, reference(values));
  cpu::SquaresSum(blocked).add(values.data(), values.size());
  EXPECT_EQ(blocked, reference(values));
}

TEST(Accumulator, ValuesOfBothSignsCancelExactly) {
  const auto values = floats_of_all_exponents(5000, 3);
  Accumulator sum{};
  for (const float value : values)
    accumulate(sum, value);
  accumulate(sum, 0.25);
  for (size_t i = values.size(); i-- > 0;)
    accumulate(sum, -values[i]);
  carry(sum);
  EXPECT_EQ(decode(sum), 0.25);
  for (size_t k = 1; k + 1 < sum.size(); ++k)
    EXPECT_TRUE(sum[k] >= 0 && sum[k] < int64_t{1} << 32) << k;
}

TEST(Accumulator, DecodesBothSignsToTheLastBits) {
  for (const double value : {1.0, -1.0, 0x1p-298, -0x1p-298, 0x1.fffffep127, 3.14159274101257324, -1e-20}) {
    const auto addend = static_cast<double>(static_cast<float>(value));
    Accumulator sum{};
    accumulate(sum, value == 0x1p-298 || value == -0x1p-298 ? value : addend);
    const double expected = std::fabs(value) == 0x1p-298 ? value : addend;
    EXPECT_EQ(decode(sum), expected);
    for (int i = 0; i < 6; ++i)
      accumulate(sum, expected);
    EXPECT_DOUBLE_EQ(decode(sum), 7 * expected);
    carry(sum);
    EXPECT_DOUBLE_EQ(decode(sum), 7 * expected);
  }
}

TEST(Accumulator, CountsWhatIsNotFinite) {
  std::vector<float> values = normal_floats(2100, 4);
  values[3] = HUGE_VALF;
  values[1500] = -HUGE_VALF;
  values[2099] = std::nanf("");
  Accumulator one_by_one{}, blocked{};
  for (const float value : values)
    accumulate_square(one_by_one, value);
  carry(one_by_one);
  cpu::SquaresSum(blocked).add(values.data(), values.size());
  EXPECT_EQ(blocked[0], 3);
  EXPECT_EQ(blocked, one_by_one);
  EXPECT_TRUE(std::isnan(decode(blocked)));
}

TEST(SumSquares, IsExactWhateverTheRangeOfExponents) {
  for (const auto& values : {floats_of_all_exponents(5000, 5), normal_floats(5000, 6)}) {
    Accumulator sum{};
    cpu::SquaresSum(sum).add(values.data(), values.size());
    EXPECT_EQ(sum, reference(values));
  }
  for (int spread = 1; spread <= 64; ++spread) {  // around the window's width, with full mantissas and full blocks
    std::mt19937 random(static_cast<uint32_t>(spread));
    std::vector<float> values(2 * cpu::kSquaresBlock);
    for (float& value : values) {
      const auto exponent = 60 + random() % static_cast<uint32_t>(spread);
      value = float_of_bits((exponent << 23) | (0x7fffffu - random() % 2));
    }
    Accumulator sum{};
    cpu::SquaresSum(sum).add(values.data(), values.size());
    EXPECT_EQ(sum, reference(values)) << spread;
  }
}

TEST(SumSquares, DoesNotDependOnOrderOrCuts) {
  std::vector<float> values = floats_of_all_exponents(4000, 7);
  const Accumulator expected = reference(values);
  std::mt19937 random(8);
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(values.begin(), values.end(), random);
    Accumulator sum{};
    for (size_t begin = 0; begin < values.size();) {
      const size_t num_elements = std::min<size_t>(random() % 1500, values.size() - begin);
      cpu::SquaresSum(sum).add(values.data() + begin, num_elements);
      begin += num_elements;
    }
    EXPECT_EQ(sum, expected) << trial;
  }
}

// The window of a block is first that of the block before it.
TEST(SumSquares, IsExactWhereTheNextBlockHasAnotherScale) {
  std::mt19937 random(10);
  std::vector<float> values;
  for (const uint32_t exponent : {100u, 101u, 102u, 104u, 90u, 82u, 81u, 0u, 1u, 0u, 254u, 253u, 20u, 0u, 60u, 60u})
    for (size_t i = 0; i < cpu::kSquaresBlock; ++i)
      values.push_back(float_of_bits((exponent << 23) | (exponent == 0 && i > 7 ? 0 : random() & 0x7fffffu)));
  Accumulator sum{};
  cpu::SquaresSum(sum).add(values.data(), values.size());
  EXPECT_EQ(sum, reference(values));
  values[3 * cpu::kSquaresBlock] = std::numeric_limits<float>::infinity();
  values[4 * cpu::kSquaresBlock] = std::numeric_limits<float>::quiet_NaN();
  Accumulator with_two{};
  cpu::SquaresSum(with_two).add(values.data(), values.size());
  EXPECT_EQ(with_two[0], 2);
}

TEST(SumSquares, SaysWhetherABlockLiesWithinAWindow) {
  constexpr uint32_t kExponent = 100, kFirst = (kExponent - cpu::kWindowExponents + 1) << 23,
                     kBound = (kExponent + 1) << 23;
  for (const auto level : {cpu::SimdLevel::kBaseline, cpu::SimdLevel::kV3, cpu::SimdLevel::kV4}) {
    if (level > cpu::simd_level()) continue;
    std::vector<float> values(cpu::kSquaresBlock - 3);
    double high, low;
    const auto holds_all = [&] {
      return TESSERA_SIMD_AT(level, sum_squares_within)(values.data(), values.size(), kFirst, kBound, kExponent, &high,
                                                        &low);
    };
    EXPECT_TRUE(holds_all());  // zeros
    for (const size_t at : {size_t{0}, size_t{500}, values.size() - 1})
      for (const auto& [bits, is_within] : {std::pair{kFirst, true},
                                            {kBound - 1, true},
                                            {kFirst - 1, false},
                                            {kBound, false},
                                            {1u, false},
                                            {cpu::kInfinity, false}}) {
        values[at] = -float_of_bits(bits);
        EXPECT_EQ(holds_all(), is_within) << at << ' ' << bits;
        values[at] = 0;
      }
  }
}

TEST(SumSquares, EveryInstructionSetIsExact) {
  const auto values = floats_of_all_exponents(cpu::kSquaresBlock - 3, 9);
  for (const auto level : {cpu::SimdLevel::kBaseline, cpu::SimdLevel::kV3, cpu::SimdLevel::kV4}) {
    if (level > cpu::simd_level()) continue;
    const auto largest = TESSERA_SIMD_AT(level, largest_magnitude);
    const auto sum_window = TESSERA_SIMD_AT(level, sum_squares_window);
    const uint32_t magnitude = largest(values.data(), values.size(), cpu::kInfinity);
    const uint32_t exponent = magnitude >> 23, first = (exponent - cpu::kWindowExponents + 1) << 23;
    double high, low;
    sum_window(values.data(), values.size(), first, cpu::kInfinity, exponent, &high, &low);
    BigNumber expected;
    for (const float value : values)
      if (std::fabs(value) >= float_of_bits(first)) expected.add_square(value);
    Accumulator sum{};
    accumulate(sum, high);
    accumulate(sum, low);
    carry(sum);
    EXPECT_EQ(sum, expected.limbs());
  }
}

}  // namespace
}  // namespace tessera
