#include "model/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace tessera::host {
namespace {

std::vector<float> normals(uint64_t seed, std::string_view name, uint64_t offset, std::size_t num_elements) {
  std::vector<float> out(num_elements);
  fill_normal(seed, name, offset, out);
  return out;
}

// Random123's kat_vectors.
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The transform is Box-Muller of the words: first pair from words 0 and 1, second from words 2 and 3.
TEST(Normal, MatchesTheLibraryFunctions) {
  const uint64_t seed = 0x123456789abcdef0;
  const uint64_t name_hash = 0xaf63dc4c8601ec8c;  // FNV-1a of "a"
  const std::vector<float> got = normals(seed, "a", 0, 4 * 20'000);
  for (uint32_t i = 0; i < 20'000; ++i) {
    const auto words = philox4x32({i, 0, static_cast<uint32_t>(name_hash), static_cast<uint32_t>(name_hash >> 32)},
                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    for (int pair = 0; pair < 2; ++pair) {
      const double radius = std::sqrt(-2 * std::log((words[2 * pair] + 1.0) / 4294967296.0));
      const double angle = 2 * std::numbers::pi * words[2 * pair + 1] / 4294967296.0;
      ASSERT_NEAR(got[4 * i + 2 * pair], radius * std::cos(angle), 4e-7) << i;
      ASSERT_NEAR(got[4 * i + 2 * pair + 1], radius * std::sin(angle), 4e-7) << i;
    }
  }
}

TEST(Normal, AnySliceEqualsTheWhole) {
  const std::vector<float> whole = normals(1337, "h.0.attn.c_attn.weight", 0, 64);
  for (std::size_t begin = 0; begin < whole.size(); ++begin) {
    for (std::size_t end = begin; end <= whole.size(); ++end) {
      const std::vector<float> slice = normals(1337, "h.0.attn.c_attn.weight", begin, end - begin);
      ASSERT_TRUE(std::equal(slice.begin(), slice.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)))
          << begin << " to " << end;
    }
  }
}

TEST(Normal, OffsetsBeyond32BitsAreDistinct) {
  const std::vector<float> low = normals(1, "a", 0, 8), high = normals(1, "a", uint64_t{4} << 32, 8);
  EXPECT_NE(low, high);
  EXPECT_EQ(high, normals(1, "a", uint64_t{4} << 32, 8));
}

TEST(Normal, SeedAndNameChangeAllNumbers) {
  const std::vector<float> base = normals(1, "wte.weight", 0, 1000);
  for (const std::vector<float>& other : {normals(2, "wte.weight", 0, 1000), normals(1, "wpe.weight", 0, 1000),
                                          normals(uint64_t{1} << 32 | 1, "wte.weight", 0, 1000)}) {
    std::size_t num_equal = 0;
    for (std::size_t i = 0; i < base.size(); ++i)
      num_equal += base[i] == other[i];
    EXPECT_LE(num_equal, 1u);
  }
}

// With n = 2^20 the standard errors are 0.00098 (mean), 0.0014 (variance), 0.0024 (third), 0.0096 (fourth): five of
// them.
TEST(Normal, Moments) {
  const std::size_t n = 1 << 20;
  double sum = 0, square = 0, cube = 0, fourth = 0, neighbors = 0, previous = 0;
  for (const float value : normals(42, "moments", 3, n)) {
    const double x = value;
    sum += x, square += x * x, cube += x * x * x, fourth += x * x * x * x, neighbors += x * previous;
    previous = x;
    ASSERT_LT(std::fabs(x), 6.7);
  }
  EXPECT_NEAR(sum / n, 0, 0.0049);
  EXPECT_NEAR(square / n, 1, 0.0069);
  EXPECT_NEAR(cube / n, 0, 0.019);
  EXPECT_NEAR(fourth / n, 3, 0.048);
  EXPECT_NEAR(neighbors / n, 0, 0.0049);
}

// The bits are a promise: a checkpoint-free restart, another machine and another release must begin alike.
TEST(Normal, BitsNeverChange) {
  const std::vector<float> got = normals(1337, "wte.weight", 0, 4);
  EXPECT_EQ(got, (std::vector<float>{0x1.697f9cp-1f, -0x1.7279b8p+0f, -0x1.7366ccp+1f, -0x1.258522p-3f}));
}

}  // namespace
}  // namespace tessera::host
