// f16 and bf16: every bit pattern widened, and every boundary between two neighbors narrowed.
#include "tessera/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of a float format with a sign bit, `exponent_bits` and `mantissa_bits`, by its definition.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double mantissa = bits & ((1u << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> (exponent_bits + mantissa_bits) ? -1 : 1;
  const double one = std::ldexp(1, mantissa_bits);
  if (exponent == 2 * bias + 1)
    return mantissa == 0 ? sign * static_cast<double>(kInfinity) : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
}

struct Format {
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t infinity() const { return static_cast<uint16_t>(((1u << exponent_bits) - 1) << mantissa_bits); }
};

class Half : public ::testing::TestWithParam<Format> {};

TEST_P(Half, WidensEveryPattern) {
  const Format& format = GetParam();
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = value_of(bits, format.exponent_bits, format.mantissa_bits);
    const float actual = format.widen(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(actual), expected) << bits;
      ASSERT_EQ(std::signbit(actual), bits >> 15 == 1) << bits;
    }
  }
}

TEST_P(Half, NarrowsBackToEveryPattern) {
  const Format& format = GetParam();
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = format.widen(static_cast<uint16_t>(bits));
    if (!std::isnan(wide)) {
      ASSERT_EQ(format.narrow(wide), bits);
    }
  }
}

TEST_P(Half, RoundsToNearestEven) {
  const Format& format = GetParam();
  for (uint16_t low = 0; low + 1 < format.infinity(); ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    // The middle has one bit more than the format and is a float.
    const auto middle =
        static_cast<float>((static_cast<double>(format.widen(low)) + static_cast<double>(format.widen(high))) / 2);
    const uint16_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(format.narrow(middle), even) << low;
    ASSERT_EQ(format.narrow(std::nextafter(middle, 0.0F)), low) << low;
    ASSERT_EQ(format.narrow(std::nextafter(middle, kInfinity)), high) << low;
    ASSERT_EQ(format.narrow(-middle), even | 0x8000) << low;
  }
}

TEST_P(Half, OverflowsToInfinityAndKeepsNan) {
  const Format& format = GetParam();
  const auto largest = static_cast<uint16_t>(format.infinity() - 1);
  const double step = static_cast<double>(format.widen(largest)) -
                      static_cast<double>(format.widen(static_cast<uint16_t>(largest - 1)));
  const auto limit = static_cast<float>(static_cast<double>(format.widen(largest)) + step / 2);
  EXPECT_EQ(format.narrow(limit), format.infinity());
  EXPECT_EQ(format.narrow(std::nextafter(limit, 0.0F)), largest);
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), format.infinity());
  EXPECT_EQ(format.narrow(-kInfinity), format.infinity() | 0x8000);
  // NaNs whose payload lies only in the bits that are cut off must not become infinity.
  for (uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu})
    EXPECT_TRUE(std::isnan(format.widen(format.narrow(float_from_bits(bits))))) << bits;
}

INSTANTIATE_TEST_SUITE_P(Formats, Half,
                         ::testing::Values(Format{5, 10, f16_to_float, float_to_f16},
                                           Format{8, 7, bf16_to_float, float_to_bf16}));

}  // namespace
}  // namespace tessera
