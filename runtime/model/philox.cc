// Normal numbers from a counter (Philox4x32-10, Salmon et al. 2011; Box and Muller 1958). A counter-based generator has
// no state: element i of a tensor is a function of (seed, name, i), which is what lets ranks with different slices
// start from one model.
//
// Logarithm, sine and cosine are computed here with series, not by libm: libm differs between systems in the last bit,
// and initial values are to be the same everywhere. Only + - * / and sqrt are used, which IEEE 754 defines to the bit.

#include "model/philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace tessera::host {
namespace {

constexpr uint64_t kNumbersPerCounter = 4;

// 1 / k: divisions would take most of the time.
constexpr std::array<double, 24> kReciprocals = [] {
  std::array<double, 24> values{};
  for (std::size_t k = 1; k < values.size(); ++k)
    values[k] = 1.0 / static_cast<double>(k);
  return values;
}();

// Fowler-Noll-Vo: gives each name its own stream. A collision would give two tensors equal numbers; with 64 bits and a
// few hundred names none is to be expected.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

uint32_t low(uint64_t word) {
  return static_cast<uint32_t>(word);
}
uint32_t high(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}

// Natural logarithm of a normal double. The series is that of 2 atanh(s), whose term s^25 is below 1e-17 here.
double log_of(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  double exponent = static_cast<double>(static_cast<int>(bits >> 52) - 1023);
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);  // [1, 2)
  const bool halve = mantissa > std::numbers::sqrt2;
  mantissa = halve ? mantissa * 0.5 : mantissa;
  exponent = halve ? exponent + 1.0 : exponent;
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double sum = 1.0 / 23;
  for (int k = 21; k >= 1; k -= 2)
    sum = sum * square + 1.0 / k;
  return exponent * std::numbers::ln2 + 2.0 * s * sum;
}

struct SineCosine {
  double sine, cosine;
};

// Of 2 pi turn / 2^32: Taylor series on the eighth of a turn on both sides of the nearest quarter.
SineCosine sine_cosine(uint32_t turn) {
  const uint32_t quarter = (turn + 0x20000000u) >> 30;
  const auto rest = static_cast<int32_t>(turn - (quarter << 30));
  const double angle = static_cast<double>(rest) * (2.0 * std::numbers::pi / 4294967296.0);
  const double square = angle * angle;
  double sine = 1.0, cosine = 1.0;
  for (int k = 16; k >= 2; k -= 2) {
    sine = 1.0 - sine * square * (kReciprocals[k] * kReciprocals[k + 1]);
    cosine = 1.0 - cosine * square * (kReciprocals[k] * kReciprocals[k - 1]);
  }
  sine *= angle;
  const double first = quarter & 1u ? cosine : sine, second = quarter & 1u ? sine : cosine;
  return {quarter & 2u ? -first : first, (quarter + 1u) & 2u ? -second : second};
}

// Box-Muller: two independent uniform words make two independent normal numbers.
void normal_pair(uint32_t radius_word, uint32_t angle_word, float* out) {
  const double uniform = (static_cast<double>(radius_word) + 1.0) * (1.0 / 4294967296.0);  // (0, 1]
  const double radius = std::sqrt(-2.0 * log_of(uniform));
  const SineCosine direction = sine_cosine(angle_word);
  out[0] = static_cast<float>(radius * direction.cosine);
  out[1] = static_cast<float>(radius * direction.sine);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    c = {high(b) ^ c[1] ^ key[0], low(b), high(a) ^ c[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

void fill_normal(uint64_t seed, std::string_view name, uint64_t offset, std::span<float> out) {
  const uint64_t stream = fnv1a(name);
  uint64_t counter = offset / kNumbersPerCounter;
  uint64_t num_skipped = offset % kNumbersPerCounter;  // of the first counter's numbers
  while (!out.empty()) {
    const auto words = philox4x32({low(counter), high(counter), low(stream), high(stream)}, {low(seed), high(seed)});
    std::array<float, kNumbersPerCounter> numbers;
    normal_pair(words[0], words[1], &numbers[0]);
    normal_pair(words[2], words[3], &numbers[2]);
    const std::size_t num_taken = std::min<std::size_t>(out.size(), kNumbersPerCounter - num_skipped);
    std::copy_n(numbers.data() + num_skipped, num_taken, out.data());
    out = out.subspan(num_taken);
    num_skipped = 0;
    ++counter;
  }
}

}  // namespace tessera::host
