// The vectorised parts of the kernels: precision, and the same bits at every instruction-set level.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu-device/kernels/linear/activation.h"
#include "cpu-device/kernels/norm/norm_rows.h"
#include "cpu-device/kernels/rows.h"
#include "cpu-device/kernels/softmax_rows.h"
#include "support/op_runner.h"

namespace tessera {
namespace {

using cpu::SimdLevel;
using tessera::testing::random_floats;

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> result;
  for (const auto level : {SimdLevel::kBaseline, SimdLevel::kV3, SimdLevel::kV4})
    if (level <= cpu::simd_level()) result.push_back(level);
  return result;
}

// Calls check(level) and compares the vectors it returns.
template <class Compute>
void expect_equal_levels(const Compute& compute) {
  const std::vector<float> expected = compute(SimdLevel::kBaseline);
  for (const SimdLevel level : levels())
    EXPECT_EQ(compute(level), expected) << "level " << static_cast<int>(level);
}

constexpr size_t kLengths[] = {1, 7, 8, 15, 16, 33, 1000, 1025, 2100};

TEST(CpuKernelsSimd, ExponentialsAreWithinTwoUnits) {
  std::vector<float> x;
  for (float value = -87.0f; value <= 0.0f; value += 0.0007f)
    x.push_back(value);
  std::vector<float> y = x;
  TESSERA_SIMD_CHOOSE(softmax_in_place)(y.data(), y.size(), 1.0f, 0.0f);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(double{y[i]} / std::exp(double{x[i]}), 1.0, 1.3e-7) << x[i];
}

TEST(CpuKernelsSimd, ExponentialsOfTheExtremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{-kInfinity, -1e30f, -88.0f, 0.0f, std::nanf("")};
  TESSERA_SIMD_CHOOSE(softmax_in_place)(x.data(), x.size(), 1.0f, 0.0f);
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 4), (std::vector<float>{0, 0, 0, 1}));
  EXPECT_TRUE(std::isnan(x[4]));
}

TEST(CpuKernelsSimd, GeluKeepsItsTails) {
  std::vector<float> x{-1e10f, -40.0f, -6.0f, -1e-30f, 0.0f, 1e-30f, 6.0f, 40.0f, 1e10f}, y(x.size()), dx(x.size());
  TESSERA_SIMD_CHOOSE(gelu)(x.data(), x.size(), y.data());
  const std::vector<float> ones(x.size(), 1.0f);
  TESSERA_SIMD_CHOOSE(gelu_backward)(x.data(), ones.data(), x.size(), dx.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(y[i], v / (1 + std::exp(-2 * u)), 2e-6 * std::abs(v / (1 + std::exp(-2 * u))) + 1e-15) << v;
    EXPECT_NEAR(dx[i], v > 6 ? 1.0 : v < -6 ? 0.0 : dx[i], 1e-6) << v;
  }
}

TEST(CpuKernelsSimd, ActivationsAreTheSameAtEveryLevel) {
  for (const size_t n : kLengths) {
    const auto x = random_floats(n, 1, 8.0f), dy = random_floats(n, 2);
    std::vector<float> y(n);
    expect_equal_levels([&](SimdLevel level) {
      TESSERA_SIMD_AT(level, gelu)(x.data(), n, y.data());
      return y;
    });
    expect_equal_levels([&](SimdLevel level) {
      TESSERA_SIMD_AT(level, gelu_backward)(x.data(), dy.data(), n, y.data());
      return y;
    });
  }
}

TEST(CpuKernelsSimd, ActivationsMayRunInPlace) {
  const auto x = random_floats(1000, 1, 8.0f);
  std::vector<float> y(1000), in_place = x;
  TESSERA_SIMD_CHOOSE(gelu)(x.data(), x.size(), y.data());
  TESSERA_SIMD_CHOOSE(gelu)(in_place.data(), x.size(), in_place.data());
  EXPECT_EQ(in_place, y);
}

TEST(CpuKernelsSimd, RowsAreTheSameAtEveryLevel) {
  for (const size_t n : kLengths) {
    const auto x = random_floats(n, 1, 4.0f), weight = random_floats(n, 2), dy = random_floats(n, 3);
    expect_equal_levels([&](SimdLevel level) {
      const cpu::NormStatistics s = TESSERA_SIMD_AT(level, norm_statistics)(x.data(), n, 1e-5f);
      std::vector<float> y(2 * n + 2);
      TESSERA_SIMD_AT(level, norm_row)(x.data(), s, weight.data(), dy.data(), n, y.data());
      TESSERA_SIMD_AT(level, norm_row_backward)(x.data(), s, weight.data(), dy.data(), nullptr, n, y.data() + n);
      y[2 * n] = s.mean;
      y[2 * n + 1] = s.inverse_deviation;
      return y;
    });
    expect_equal_levels([&](SimdLevel level) {
      std::vector<float> y = x;
      const float max = TESSERA_SIMD_AT(level, row_max)(y.data(), n);
      const double sum = TESSERA_SIMD_AT(level, exp_in_place)(y.data(), n, max, 0.125f);
      EXPECT_EQ(TESSERA_SIMD_AT(level, exp_sum)(x.data(), n, max, 0.125f), sum);
      y.insert(y.end(), {max, static_cast<float>(sum), TESSERA_SIMD_AT(level, dot)(x.data(), dy.data(), n)});
      return y;
    });
    for (const bool accumulate : {false, true})
      expect_equal_levels([&](SimdLevel level) {
        std::vector<float> y = dy;
        TESSERA_SIMD_AT(level, scaled_exp)(x.data(), n, 4.5f, 0.3f, accumulate, y.data());
        return y;
      });
  }
}

TEST(CpuKernelsSimd, TheLargestElementIsFoundEverywhere) {
  for (const size_t n : kLengths)
    for (size_t at = 0; at < n; at += n / 8 + 1) {
      std::vector<float> x(n, -3.0f);
      x[at] = -2.0f;
      ASSERT_EQ(TESSERA_SIMD_CHOOSE(row_max)(x.data(), n), -2.0f) << at << " of " << n;
    }
}

TEST(CpuKernelsSimd, TheLargestElementOfNoneIsTheSmallestFloat) {
  EXPECT_EQ(TESSERA_SIMD_CHOOSE(row_max)(nullptr, 0), -std::numeric_limits<float>::infinity());
}

TEST(CpuKernelsSimd, ColumnSumsAreTheSameAtEveryLevel) {
  for (const size_t num_rows : {1, 3, 4, 9}) {
    const auto x = random_floats(num_rows * 33, 1);
    expect_equal_levels([&](SimdLevel level) {
      std::vector<float> sums(30, 0.5f);
      TESSERA_SIMD_AT(level, column_sums)(x.data(), num_rows, 30, 33, true, sums.data());
      return sums;
    });
  }
}

}  // namespace
}  // namespace tessera
